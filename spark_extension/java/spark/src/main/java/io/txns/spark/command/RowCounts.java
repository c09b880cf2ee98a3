package io.txns.spark.command;

import io.txns.iceberg.stage.WrittenSnapshot;
import io.txns.spark.sql.ParsedDml.Kind;
import java.util.List;
import java.util.OptionalLong;
import java.util.stream.LongStream;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/**
 * How many rows a DML statement changed: from the files that it has written and removed where they
 * tell, from Spark's own counts where only those do and the files bear them out.
 */
record RowCounts(long updated, long deleted, long inserted) {

  static final RowCounts NONE = new RowCounts(0, 0, 0);

  /** Nobody knows them. */
  static final RowCounts UNKNOWN = new RowCounts(-1, -1, -1);

  /** Spark's counts of a MERGE or copy-on-write UPDATE, which Iceberg keeps in the summary. */
  private static final String MERGED = "spark.merge-into.num-target-rows-";

  long affected() {
    return updated + deleted + inserted;
  }

  /** The sum over the snapshots that a statement made; one of none has changed no row. */
  static RowCounts of(Kind kind, List<WrittenSnapshot> snapshots) {
    RowCounts sum = NONE;
    for (WrittenSnapshot snapshot : snapshots) {
      RowCounts one = of(kind, snapshot);
      if (one.equals(UNKNOWN)) {
        return UNKNOWN;
      }
      sum =
          new RowCounts(
              sum.updated + one.updated, sum.deleted + one.deleted, sum.inserted + one.inserted);
    }
    return sum;
  }

  private static RowCounts of(Kind kind, WrittenSnapshot snapshot) {
    return switch (kind) {
      case INSERT -> new RowCounts(0, 0, snapshot.addedRows());
      case UPDATE ->
          snapshot.removesFiles()
              ? rewritten(snapshot, false)
              : new RowCounts(snapshot.addedRows(), 0, 0);
      case DELETE -> deleted(snapshot);
      case MERGE ->
          reported(snapshot, "updated") < 0 ? appended(snapshot) : rewritten(snapshot, true);
    };
  }

  /** Rows that a copy-on-write DELETE keeps leave with their file, and are added again. */
  private static RowCounts deleted(WrittenSnapshot snapshot) {
    OptionalLong removed = snapshot.removedRows();
    return removed.isEmpty()
        ? UNKNOWN
        : new RowCounts(0, removed.getAsLong() - snapshot.addedRows(), 0);
  }

  /** Spark runs a MERGE that only inserts as an append, and reports nothing. */
  private static RowCounts appended(WrittenSnapshot snapshot) {
    boolean removes = snapshot.removesFiles() || snapshot.marksRows();
    return removes ? UNKNOWN : new RowCounts(0, 0, snapshot.addedRows());
  }

  /**
   * What Spark reports, if the files hold as many rows. It counts twice what a lost executor or a
   * range partitioning lets it do twice, and what a task reports may be lost.
   */
  private static RowCounts rewritten(WrittenSnapshot snapshot, boolean mayDelete) {
    long copied = reported(snapshot, "copied");
    RowCounts counts =
        new RowCounts(
            reported(snapshot, "updated"),
            reported(snapshot, "deleted"),
            reported(snapshot, "inserted"));
    boolean reportsAll =
        LongStream.of(copied, counts.updated, counts.deleted).min().orElse(-1) >= 0;
    boolean exact =
        reportsAll
            && counts.inserted + counts.updated + copied == snapshot.addedRows()
            && (!mayDelete
                || snapshot
                    .removedRows()
                    .equals(OptionalLong.of(counts.deleted + counts.updated + copied)));
    return exact ? counts : UNKNOWN;
  }

  private static long reported(WrittenSnapshot snapshot, String what) {
    return Long.parseLong(snapshot.summary().getOrDefault(MERGED + what, "-1"));
  }

  Row toRow(Kind kind) {
    boolean unknown = equals(UNKNOWN);
    if (kind != Kind.MERGE) {
      return RowFactory.create(unknown ? null : (Object) affected());
    }
    return unknown
        ? RowFactory.create(null, null, null, null)
        : RowFactory.create(affected(), updated, deleted, inserted);
  }
}
