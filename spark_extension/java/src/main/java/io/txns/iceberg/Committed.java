package io.txns.iceberg;

import io.txns.iceberg.log.Entry;
import java.util.List;

/**
 * A transaction that has committed.
 *
 * @param txnId its id
 * @param commitTs its {@code commit_ts} in ms; its {@code read_ts} for one that wrote nothing
 * @param readTs its {@code read_ts} in ms
 * @param applied whether all its tables show it to readers outside the protocol already; false,
 *     too, where that could not be told
 * @param tables the tables it wrote, in the order of its entry
 */
public record Committed(
    String txnId, long commitTs, long readTs, boolean applied, List<String> tables) {
  public static Committed of(Entry entry, boolean applied) {
    List<String> names = entry.changes().stream().map(change -> change.table().toString()).toList();
    return new Committed(entry.txnId(), entry.commitTs(), entry.readTs(), applied, names);
  }
}
