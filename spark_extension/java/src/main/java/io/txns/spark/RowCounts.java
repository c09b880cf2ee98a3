package io.txns.spark;

import io.txns.spark.WritePlans.Dml;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.SnapshotSummary;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;

/** How many rows a DML statement changed. */
record RowCounts(long updated, long deleted, long inserted) {

  static final RowCounts NONE = new RowCounts(0, 0, 0);

  /** Nobody has counted them. */
  static final RowCounts UNKNOWN = new RowCounts(-1, -1, -1);

  private static final String MERGE = "spark.merge-into.num-target-rows-";

  long affected() {
    return updated + deleted + inserted;
  }

  /**
   * What the summaries of the snapshots that a statement made tell.
   *
   * <p>An UPDATE on a copy-on-write table cannot be told from them: it rewrites rows that it does
   * not change.
   */
  static RowCounts of(Dml kind, List<Map<String, String>> summaries) {
    RowCounts sum = NONE;
    for (Map<String, String> summary : summaries) {
      RowCounts one = of(kind, summary);
      sum =
          new RowCounts(
              sum.updated + one.updated, sum.deleted + one.deleted, sum.inserted + one.inserted);
    }
    return sum;
  }

  private static RowCounts of(Dml kind, Map<String, String> summary) {
    long added = value(summary, SnapshotSummary.ADDED_RECORDS_PROP);
    return switch (kind) {
      case INSERT -> new RowCounts(0, 0, added);
      case UPDATE -> new RowCounts(added, 0, 0);
      case DELETE -> new RowCounts(0, deleted(summary), 0);
      case MERGE -> merged(summary, added);
    };
  }

  /** Rows that left with their files and did not come back, and rows marked as deleted. */
  private static long deleted(Map<String, String> summary) {
    return value(summary, SnapshotSummary.DELETED_RECORDS_PROP)
        - value(summary, SnapshotSummary.ADDED_RECORDS_PROP)
        + value(summary, SnapshotSummary.ADDED_POS_DELETES_PROP)
        - value(summary, SnapshotSummary.REMOVED_POS_DELETES_PROP);
  }

  private static RowCounts merged(Map<String, String> summary, long added) {
    boolean counted = summary.keySet().stream().anyMatch(key -> key.startsWith(MERGE));
    // Spark runs a MERGE that only inserts as an append.
    return counted
        ? new RowCounts(
            value(summary, MERGE + "updated"),
            value(summary, MERGE + "deleted"),
            value(summary, MERGE + "inserted"))
        : new RowCounts(0, 0, added);
  }

  private static long value(Map<String, String> summary, String key) {
    return Math.max(0, Long.parseLong(summary.getOrDefault(key, "0")));
  }

  Row toRow(Dml kind) {
    if (equals(UNKNOWN)) {
      return RowFactory.create((Object) null);
    }
    return kind == Dml.MERGE
        ? RowFactory.create(affected(), updated, deleted, inserted)
        : RowFactory.create(affected());
  }
}
