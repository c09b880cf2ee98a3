package io.txns.iceberg.log;

import io.txns.iceberg.TxnException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.BufferUnderflowException;
import java.util.List;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.iceberg.Table;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.io.CloseableIterable;

/** Reads the archive's rows, and tells what is none of it from what cannot be read. */
public final class ArchiveScan {
  private ArchiveScan() {}

  /** Hand over each row that there is, in any order. */
  static void read(Table table, Expression filter, List<String> columns, Consumer<Record> reader) {
    readable(
        () -> {
          try (CloseableIterable<Record> records =
              IcebergGenerics.read(table)
                  .where(filter)
                  .select(columns.toArray(String[]::new))
                  .build()) {
            records.forEach(reader);
          } catch (IOException e) {
            throw new UncheckedIOException("cannot read the commit table's rows", e);
          }
          return null;
        });
  }

  /**
   * Read the archive.
   *
   * @throws TxnException CorruptLog where its files are none of it, or its table has other columns:
   *     anybody who may write the commit table can have put them there
   */
  public static <T> T readable(Supplier<T> work) {
    try {
      return work.get();
    } catch (RuntimeException e) {
      if (isOfBytes(e)) {
        throw unreadable(e);
      }
      throw e;
    }
  }

  /** Whether an error comes of what was read, and not of reading it. */
  private static boolean isOfBytes(RuntimeException e) {
    boolean reads = false;
    Throwable last = e;
    for (Throwable told = e; told != null; told = told.getCause()) {
      reads |= told instanceof IOException;
      last = told;
    }
    // Of a file that is none of theirs libraries have errors of reading, at the bottom of which is
    // one of their own. Hadoop calls a server that is not found an illegal argument.
    String library = last.getClass().getName(); // engines put words before it
    if (reads) {
      return library.contains("org.apache.avro.") || library.contains("org.apache.thrift.");
    }
    // One that is no Parquet file has an error without a class.
    StackTraceElement[] frames = e.getStackTrace();
    return e instanceof ValidationException
        || e instanceof IllegalArgumentException
        || e instanceof NullPointerException
        || e instanceof ClassCastException
        || e instanceof BufferUnderflowException
        || e instanceof IndexOutOfBoundsException
        || library.contains("org.apache.avro.")
        || frames.length > 0 && frames[0].getClassName().contains("org.apache.parquet.");
  }

  private static TxnException unreadable(RuntimeException cause) {
    TxnException error =
        TxnException.corruptLog(
            "the archive of the log cannot be read: look who has written the commit table; "
                + cause);
    error.addSuppressed(cause); // one that was made without a cause takes none
    return error;
  }
}
