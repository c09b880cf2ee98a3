package io.txns.spark.session;

import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.session.RunningWrites.Write;
import java.util.concurrent.Callable;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;

/** Runs writes of a session: in its open transaction, or each as a transaction of its own. */
public record SessionWrites(TxnSession state) {

  private static final String SAVEPOINT = "__txns_statement";

  /**
   * Runs a write whose plan tells its target, and is run inside. In an explicit transaction a
   * failure aborts it; outside, and with a catalog, the write is an implicit transaction that reads
   * everything at one moment.
   *
   * @param catalog the target's catalog, or null when it is not ours
   * @param skipped the answer when the transaction has committed earlier
   */
  public <T> T run(
      SparkSession session, TransactionCatalog catalog, Supplier<T> skipped, Callable<T> body)
      throws Exception {
    if (catalog != null) {
      state.current(catalog); // only a transaction that has begun knows if its id has committed
    }
    if (state.isSkipping()) {
      return skipped.get();
    }
    if (state.isInWrite()) {
      return body.call();
    }
    state.checkNotAborted();
    if (state.isExplicit()) {
      return runExplicit(session, body);
    }
    return catalog == null
        ? body.call()
        : runAlone(catalog, catalog.handle().beginStatement(), body);
  }

  /** Runs a statement of ours: however long it takes, its transaction is not idle meanwhile. */
  public <T> T runStatement(Supplier<T> body) {
    try {
      return state.writes().runStatement(body);
    } finally {
      state.touch();
    }
  }

  /** Whether a write that begins now is no part of a transaction, or of another write. */
  public boolean areAlone() {
    return !state.isExplicit() && !state.isSkipping() && !state.isInWrite();
  }

  /** Runs a write to {@code target} in the same way, if that may be written. */
  public <T> T runTo(
      WriteTarget target, SparkSession session, Supplier<T> skipped, Callable<T> body)
      throws Exception {
    return run(
        session,
        target.catalog(),
        skipped,
        () -> {
          state.checkWrite(target);
          return body.call();
        });
  }

  /** Runs a write as a transaction of its own that has begun. */
  public <T> T runAlone(TransactionCatalog catalog, Transaction own, Callable<T> body)
      throws Exception {
    return state.writes().run(new Write(catalog, own, null), body);
  }

  private <T> T runExplicit(SparkSession session, Callable<T> body) throws Exception {
    boolean abortOnError = state.abortsOnError(session.sessionState().conf());
    OpenTransaction owner = state.require("a write");
    Callable<T> watched = () -> DoomWatch.during(session.sparkContext(), owner, body);
    return abortOnError
        ? runExplicit(owner, true, watched)
        : state.writes().inTurn(() -> runExplicit(owner, false, watched));
  }

  private <T> T runExplicit(OpenTransaction owner, boolean abortOnError, Callable<T> body)
      throws Exception {
    if (!abortOnError) {
      state.ifOpen(owner, transaction -> transaction.savepoint(SAVEPOINT));
    }
    try {
      Write write = new Write(null, null, owner);
      return state.writes().run(write, () -> undoneWhereItFails(owner, abortOnError, body));
    } finally {
      state.touch();
    }
  }

  private <T> T undoneWhereItFails(OpenTransaction owner, boolean abortOnError, Callable<T> body)
      throws Exception {
    try {
      T result = body.call();
      if (!abortOnError) {
        state.ifOpen(owner, transaction -> transaction.release(SAVEPOINT));
      }
      return result;
    } catch (Throwable e) {
      undo(owner, abortOnError, e);
      throw e;
    }
  }

  private void undo(OpenTransaction owner, boolean abortOnError, Throwable failure) {
    try {
      state.ifOpen(
          owner,
          transaction -> {
            if (abortOnError) {
              transaction.abort();
            } else {
              transaction.undo(SAVEPOINT);
            }
          });
    } catch (RuntimeException e) {
      failure.addSuppressed(e);
    }
  }
}
