package io.txns.spark.session;

import io.txns.iceberg.Committed;
import io.txns.iceberg.catalog.Transaction;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.RowFactory;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;

/**
 * The row that every transaction statement returns. What is not known is null.
 *
 * @param state {@code none}, {@code active}, {@code aborted}, {@code committed} or {@code rolled
 *     back}
 * @param tables what the transaction has written
 * @param unprotected what it has read that no commit check covers
 * @param applied whether the committed changes have reached their tables
 * @param apply how what it commits comes to its tables, and why; of {@code SHOW TRANSACTION}
 */
public record StatusRow(
    String state,
    String txnId,
    Long readTs,
    Long commitTs,
    List<String> tables,
    List<String> unprotected,
    Boolean applied,
    String apply,
    List<String> reserved) {

  public static final StructType SCHEMA =
      new StructType()
          .add("state", DataTypes.StringType, false)
          .add("txn_id", DataTypes.StringType)
          .add("read_ts", DataTypes.LongType)
          .add("commit_ts", DataTypes.LongType)
          .add("tables", DataTypes.createArrayType(DataTypes.StringType, false), false)
          .add("unprotected", DataTypes.createArrayType(DataTypes.StringType, false), false)
          .add("applied", DataTypes.BooleanType)
          .add("in_transaction", DataTypes.BooleanType, false)
          .add("apply", DataTypes.StringType)
          .add("reserved", DataTypes.createArrayType(DataTypes.StringType, false), false);

  public static StatusRow none() {
    return new StatusRow("none", null, null, null, List.of(), List.of(), null, null, List.of());
  }

  /** A transaction that has not touched a catalog yet. */
  public static StatusRow unbound(String state, String id, List<String> unprotected) {
    return new StatusRow(state, id, null, null, List.of(), unprotected, null, null, List.of());
  }

  public static StatusRow of(String state, Transaction transaction) {
    return new StatusRow(
        state,
        transaction.id(),
        transaction.readTs(),
        null,
        transaction.tables(),
        transaction.unprotected(),
        null,
        null,
        List.of());
  }

  static StatusRow committed(Committed committed, List<String> unprotected) {
    return new StatusRow(
        "committed",
        committed.txnId(),
        committed.readTs(),
        committed.commitTs(),
        committed.tables(),
        unprotected,
        committed.applied(),
        null,
        List.of());
  }

  /**
   * The same row, which says more of the log.
   *
   * @param how what is committed comes to its tables
   * @param who has reserved which tables
   */
  StatusRow showing(String how, List<String> who) {
    return new StatusRow(state, txnId, readTs, commitTs, tables, unprotected, applied, how, who);
  }

  /**
   * As the statement returns it.
   *
   * @param inTransaction whether the session is in a transaction when the statement has ended: a
   *     client cannot tell it by the state, which is {@code committed} after BEGIN, too, when the
   *     id has committed earlier
   */
  public Row toRow(boolean inTransaction) {
    return RowFactory.create(
        state,
        txnId,
        readTs,
        commitTs,
        tables.toArray(new String[0]),
        unprotected.toArray(new String[0]),
        applied,
        inTransaction,
        apply,
        reserved.toArray(new String[0]));
  }
}
