package io.txns.iceberg;

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
    String txnId, long commitTs, long readTs, boolean applied, List<String> tables) {}
