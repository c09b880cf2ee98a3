package io.txns.iceberg.meta;

import io.txns.iceberg.TxnException;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Set;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileContent;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;

/**
 * A compaction whose files are as new as its snapshot, whatever it is told.
 *
 * <p>Iceberg lets files count as old as the snapshot that was read, so that deletes by value which
 * come meanwhile take rows of them. In the log nothing comes meanwhile: its change stands on what
 * it has read, or loses. And that number may not be the table's yet: what is applied later gets a
 * greater one, by which its deletes would take the rows that were written with them.
 */
public final class Compaction implements InvocationHandler {
  private final RewriteFiles operation;
  private final Table table;
  private Snapshot read;
  private boolean isTold;
  private Long number;

  private Compaction(RewriteFiles operation, Table table) {
    this.operation = operation;
    this.table = table;
    this.read = table.currentSnapshot();
  }

  /**
   * @param table that it rewrites, as it was read
   */
  public static RewriteFiles of(RewriteFiles operation, Table table) {
    return (RewriteFiles)
        Proxy.newProxyInstance(
            RewriteFiles.class.getClassLoader(),
            new Class<?>[] {RewriteFiles.class},
            new Compaction(operation, table));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    switch (method.getName()) {
      case "dataSequenceNumber" -> {
        number = (Long) arguments[0];
        return proxy;
      }
      case "rewriteFiles" -> {
        if (arguments[arguments.length - 1] instanceof Long told) {
          number = told;
          operation.rewriteFiles(files(arguments[0]), Set.of(), files(arguments[1]), Set.of());
          return proxy;
        }
      }
      case "addFile" -> {
        if (arguments[0] instanceof DeleteFile deletes
            && deletes.content() == FileContent.POSITION_DELETES) { // which go by paths
          operation.addFile(deletes);
          return proxy;
        }
      }
      case "validateFromSnapshot" -> {
        read = table.snapshot((Long) arguments[0]);
        isTold = true;
      }
      case "toBranch" -> read = isTold ? read : table.snapshot((String) arguments[0]);
      case "commit" -> {
        refuseOlder();
        validateFromRead();
      }
      default -> {}
    }
    try {
      Object result = method.invoke(operation, arguments);
      return result == operation ? proxy : result;
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  @SuppressWarnings("unchecked") // Iceberg's signature
  private static Set<DataFile> files(Object argument) {
    return (Set<DataFile>) argument;
  }

  private void refuseOlder() {
    if (number != null && read != null && number < read.sequenceNumber()) {
      throw TxnException.unsupported(
          String.format(
              "a compaction leaves out the rows that were deleted in what it has read, and its"
                  + " files cannot count as older than that: leave out dataSequenceNumber;"
                  + " told=`%d` read=`%d` table=`%s`",
              number, read.sequenceNumber(), table.name()));
    }
  }

  /** Files of that number needed no such word, without which all that was deleted ever counts. */
  private void validateFromRead() {
    if (number != null && !isTold && read != null) {
      operation.validateFromSnapshot(read.snapshotId());
    }
  }
}
