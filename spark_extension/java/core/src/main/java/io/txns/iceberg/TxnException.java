package io.txns.iceberg;

import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CleanableFailure;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NotAuthorizedException;

/** An error of the protocol. Its {@link #kind()} says what the caller has to do. */
public class TxnException extends RuntimeException {
  /** Parameter: the table the error is about. */
  public static final String TABLE = "table";

  /** Parameter: the transaction that got the error. */
  public static final String TXN_ID = "txnId";

  /** Parameter: the transaction it clashed with. */
  public static final String OTHER_TXN_ID = "otherTxnId";

  /** Parameter: who wrote the transaction it clashed with. */
  public static final String OTHER_ENGINE = "otherEngine";

  /** Parameter: the words of that transaction's user, in one line, as the message shows them. */
  public static final String OTHER_COMMENT = "otherComment";

  /** Parameter: the least {@code read_ts} in ms at which the transaction would not clash. */
  public static final String LEAST_TS = "leastTs";

  /** PostgreSQL's for its transaction_timeout. */
  private static final String OVER_AGE = "25P04";

  private static final String TOO_MUCH = "54000";

  private final ErrorKind kind;
  private final String sqlState;
  private final Map<String, String> parameters = new LinkedHashMap<>();

  private TxnException(ErrorKind kind, String sqlState, String message, Throwable cause) {
    super(Messages.of(message), cause);
    this.kind = kind;
    this.sqlState = sqlState;
  }

  private static TxnException notCommitted(ErrorKind kind, String message) {
    return new NotCommitted(kind, kind.sqlState(), message, null);
  }

  /** Whoever wrote files for the commit may delete them: Spark and Iceberg do. */
  private static final class NotCommitted extends TxnException implements CleanableFailure {
    private NotCommitted(ErrorKind kind, String sqlState, String message, Throwable cause) {
      super(kind, sqlState, message, cause);
    }
  }

  /** A lost race over {@code table}: definitely not committed, to be run again from the start. */
  public static TxnException conflict(
      TableIdentifier table, String txnId, Winner winner, long leastTs, String reason) {
    return conflict("transaction lost a race, run it again", table, txnId, winner, leastTs, reason);
  }

  /** A COMMIT that {@code option} has lose {@code left} times more: nobody was faster. */
  public static TxnException rehearsed(String txnId, String option, int left) {
    String message =
        String.format(
            "transaction lost a race, run it again: nobody was faster, this is a rehearsal, %s asks"
                + " for %d more; txn=`%s`",
            option, left, txnId);
    return notCommitted(ErrorKind.CONFLICT, message).with(TXN_ID, txnId);
  }

  /** A transaction above the maximum age: it would be as old the next time. */
  public static TxnException overAge(String txnId, long ageMs, long maxAgeMs) {
    String message =
        String.format(
            "the transaction is %d s old, and may be %d s: it would be as old the next time, so"
                + " shorten it, or raise the log's by system.settings(max_age_s => ...), and this"
                + " catalog's own txns.max-age-s; txn=`%s`",
            ageMs / 1000, maxAgeMs / 1000, txnId);
    return invalidUsage(OVER_AGE, message).with(TXN_ID, txnId);
  }

  /** A dropped table that is being purged: neither creators nor other purgers may have it. */
  public static TxnException notFree(TableIdentifier table, long leastTs, String reason) {
    return conflict("table is not free, try again", table, "", Winner.NOBODY, leastTs, reason);
  }

  /** A table object whose table has another name by now, or none: its name is another one's. */
  public static TxnException anotherTable(TableIdentifier table) {
    return notCommitted(
            ErrorKind.CONFLICT,
            String.format(
                "the table was dropped and created again, or another one has taken its name, since"
                    + " it was loaded: load it again, or run the statement again; table=`%s`",
                table))
        .with(TABLE, String.valueOf(table));
  }

  /** A read before all that is left of a table (invariant I11). */
  public static TxnException tooOld(
      TableIdentifier table, long readTs, long leastTs, String reason) {
    String what = "too old, read at a newer timestamp";
    return conflict(
        what,
        table,
        "",
        Winner.NOBODY,
        leastTs,
        "the table cannot be read at " + readTs + ": " + reason);
  }

  private static TxnException conflict(
      String what,
      TableIdentifier table,
      String txnId,
      Winner winner,
      long leastTs,
      String reason) {
    String message =
        String.format(
            "%s: %s; table=`%s` txn=`%s` clashed_with=`%s` least_ts=`%d`",
            what, reason, table, txnId, winner.txnId(), leastTs);
    if (!winner.txnId().isEmpty()) {
      message +=
          String.format(" other_engine=`%s` other_comment=`%s`", winner.engine(), winner.comment());
    }
    return notCommitted(ErrorKind.CONFLICT, message)
        .with(TABLE, String.valueOf(table))
        .with(TXN_ID, txnId)
        .with(OTHER_TXN_ID, winner.txnId())
        .with(OTHER_ENGINE, winner.engine())
        .with(OTHER_COMMENT, winner.comment())
        .with(LEAST_TS, Long.toString(leastTs));
  }

  /** The answer of the catalog was lost and the log does not tell yet. */
  public static TxnException commitStateUnknown(String txnId, Throwable cause) {
    String message =
        String.format(
            "it is not known whether the transaction committed: ask again with BEGIN ID '%s' before"
                + " running it again; nothing has been cleaned up; txn=`%s`",
            txnId, txnId);
    return new TxnException(
            ErrorKind.COMMIT_STATE_UNKNOWN,
            ErrorKind.COMMIT_STATE_UNKNOWN.sqlState(),
            message,
            cause)
        .with(TXN_ID, txnId);
  }

  /**
   * The catalog refuses to let the entry into the log, and no head has it. It says nothing of what
   * may be deleted, since a request before the refused one may still land.
   */
  public static TxnException refused(String txnId, RuntimeException cause) {
    String sqlState = cause instanceof ForbiddenException ? "42501" : "58000";
    sqlState = cause instanceof NotAuthorizedException ? "28000" : sqlState;
    String message =
        String.format(
            "the catalog refuses to write the commit table: %s; what was staged stays: cure it and"
                + " COMMIT again, or ROLLBACK; txn=`%s`",
            cause.getMessage(), txnId);
    return new TxnException(ErrorKind.INVALID_USAGE, sqlState, message, cause).with(TXN_ID, txnId);
  }

  /**
   * Whether an error of a commit is its outcome: not committed, and not by another try either. What
   * a catalog or a storage says is none, nor is a call that can be changed.
   */
  public static boolean isFinal(RuntimeException e) {
    return e instanceof TxnException known
        && known.kind != ErrorKind.COMMIT_STATE_UNKNOWN
        && (known.kind != ErrorKind.INVALID_USAGE
            || OVER_AGE.equals(known.sqlState)
            || TOO_MUCH.equals(known.sqlState));
  }

  /** What is above a limit of the log. */
  public static TxnException tooMuch(String message) {
    return invalidUsage(TOO_MUCH, message);
  }

  /** A call that has to be changed by the caller, with a SQLSTATE of class 25, 3B, 42 or 54. */
  public static TxnException invalidUsage(String sqlState, String message) {
    return new NotCommitted(ErrorKind.INVALID_USAGE, sqlState, message, null);
  }

  /** A table whose logged change cannot be applied. */
  public static TxnException quarantined(TableIdentifier table, String reason) {
    return quarantined(
        table,
        reason,
        String.format(
            "readers stay on the logged state; end it with CALL system.repair(table => '%s',"
                + " action => 'adopt') or 'reject'",
            table));
  }

  /** The same of one that no repair ends. */
  public static TxnException quarantined(TableIdentifier table, String reason, String cure) {
    return ofTable(ErrorKind.QUARANTINED, table, reason, cure);
  }

  /** A table that cannot be {@code deed} before the log has nothing left for it. */
  public static TxnException notApplied(TableIdentifier table, String deed) {
    return quarantined(
        table,
        "entries of the table are not applied, so it cannot be " + deed + " yet",
        "CALL system.apply() applies them, or the log of that process says what is in the way; then"
            + " try again");
  }

  /** A table of whose logged state nothing is left: no repair ends that. */
  public static TxnException expired(TableIdentifier table) {
    return quarantined(
        table,
        "the logged state of the table has been expired",
        "nobody can bring it back: unset the table's property txns.commit-table outside the"
            + " protocol, which keeps it as the catalog has it, then register it");
  }

  /** A table that lacks what the log has of it: readers have nothing to stay on. */
  public static TxnException incomplete(TableIdentifier table, String reason) {
    return quarantined(
        table,
        reason,
        String.format(
            "register its newest metadata in the catalog again, or take it as it stands with"
                + " CALL system.repair(table => '%s', action => 'adopt')",
            table));
  }

  /** A table that the catalog does not have any more, and of which the log does not have all. */
  public static TxnException missing(TableIdentifier table) {
    return quarantined(
        table,
        "somebody dropped the table, or renamed it, and the log does not have all of it any more",
        "register its newest metadata in the catalog again, or rename it back there");
  }

  /** A name of a table that was written under another one, which the catalog has, too. */
  public static TxnException secondName(TableIdentifier table, TableIdentifier other) {
    return quarantined(
        table,
        String.format(
            "the table stands under two names of the catalog, and was written under the other one;"
                + " other=`%s`",
            other),
        "take this name out of the catalog without purging its files, which are the other one's"
            + " too");
  }

  /** A table that somebody wrote outside the protocol. */
  public static TxnException foreignWrite(TableIdentifier table, String reason) {
    return ofTable(
        ErrorKind.FOREIGN_WRITE,
        table,
        reason,
        String.format(
            "readers stay on the logged state; take it in with CALL system.repair(table => '%s',"
                + " action => 'adopt') or set it aside with action => 'reject'",
            table));
  }

  private static TxnException ofTable(
      ErrorKind kind, TableIdentifier table, String reason, String cure) {
    String message = String.format("%s; %s; table=`%s`", reason, cure, table);
    return notCommitted(kind, message).with(TABLE, String.valueOf(table));
  }

  /** Stored state that contradicts an invariant of the specification. */
  public static TxnException corruptLog(String message) {
    return notCommitted(ErrorKind.CORRUPT_LOG, message);
  }

  /** What needs the log, while it takes no writers. */
  public static TxnException off() {
    return unsupported(
        "transactions are off for this commit table: CALL system.on() or `txns on` lets writers in;"
            + " until then single statements read and write, as plain Iceberg does, the tables to which"
            + " everything is applied");
  }

  /** Something that cannot be done here; the message names the cure. */
  public static TxnException unsupported(String message) {
    return notCommitted(ErrorKind.UNSUPPORTED, message);
  }

  /** A conflict once more, for who may not have heard of it. */
  public TxnException again() {
    TxnException same = new NotCommitted(kind, sqlState, getMessage(), this);
    parameters.forEach(same::with);
    return same;
  }

  private TxnException with(String key, String value) {
    if (value != null) {
      parameters.put(key, value);
    }
    return this;
  }

  public ErrorKind kind() {
    return kind;
  }

  /** The error condition, for example {@code TXNS_CONFLICT}. */
  public String condition() {
    return kind.condition();
  }

  /** The five characters of the SQLSTATE. */
  public String sqlState() {
    return sqlState;
  }

  /** What is known of {@link #TABLE} and the other parameters. */
  public Map<String, String> parameters() {
    return Collections.unmodifiableMap(parameters);
  }
}
