package io.txns.spark.session;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import org.apache.spark.sql.SparkSession;

/**
 * Lost races for rehearsal: the next COMMITs of a session are refused as if somebody had been
 * faster, so that whoever writes retries sees them work.
 */
final class Rehearsal {

  /** Runtime option, which counts itself down: how many COMMITs lose. */
  static final String OPTION = "spark.sql.txns.rehearse-conflicts";

  private Rehearsal() {}

  /**
   * Has {@code transaction} lose, if some are left to do so, and it could: it has written, and no
   * earlier COMMIT of it may land.
   *
   * @throws TxnException 40001: it is undone; 42000 when the option is not a whole number
   */
  static void lose(SparkSession session, Transaction transaction) {
    int left = left(session);
    if (left == 0 || transaction.tables().isEmpty() || transaction.mayLand()) {
      return;
    }
    session.conf().set(OPTION, left - 1);
    transaction.rollback();
    throw TxnException.rehearsed(transaction.id(), OPTION, left - 1);
  }

  private static int left(SparkSession session) {
    String value = session.conf().get(OPTION, "0").trim();
    if (!value.matches("[0-9]{1,9}")) {
      throw TxnException.invalidUsage(
          "42000",
          String.format("%s must be a whole number, 0 for none; value=`%s`", OPTION, value));
    }
    return Integer.parseInt(value);
  }
}
