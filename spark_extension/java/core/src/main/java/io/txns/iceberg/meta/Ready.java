package io.txns.iceberg.meta;

import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.FileIO;

/** What becomes of one table, its metadata written before its row was locked. Threads share it. */
public final class Ready {
  private final TableIdentifier table;
  private final String from;
  private final TableMetadata said;
  private final String file;
  private final Object change;
  private final FileIO io;
  private final AtomicBoolean isTaken = new AtomicBoolean();

  /**
   * @param from the file that its row named then
   * @param said what was said of it, before a file was made of that
   * @param file what its row is to name
   * @param change says of which change it is made
   */
  Ready(
      TableIdentifier table,
      String from,
      TableMetadata said,
      String file,
      Object change,
      FileIO io) {
    this.table = table;
    this.from = from;
    this.said = said;
    this.file = file;
    this.change = change;
    this.io = io;
  }

  TableIdentifier table() {
    return table;
  }

  String from() {
    return from;
  }

  TableMetadata said() {
    return said;
  }

  public String file() {
    return file;
  }

  /** Whether it is made of a change, and its file has no owner besides who has written it. */
  boolean isFor(Object wanted) {
    return !isTaken.get() && change.equals(wanted);
  }

  /**
   * Own its file from now on, to move a row to it or to remove it; the first one does.
   *
   * <p>Who leads a group may be about to move the row while the thread that has written the file is
   * stopped, and removes it.
   */
  boolean take() {
    return isTaken.compareAndSet(false, true);
  }

  /** Remove its file, unless somebody has taken it. */
  public void end() {
    if (take()) {
      Cleaning.of(file, () -> io.deleteFile(file));
    }
  }
}
