package io.txns.spark.command;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.spark.TxnSqlException;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.IdleTimeout;
import io.txns.spark.session.OpenTransaction;
import io.txns.spark.session.PlanCaches;
import io.txns.spark.session.SessionEnds;
import io.txns.spark.session.StatusRow;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.sql.TxnModes;
import io.txns.spark.sql.TxnStatement;
import java.util.List;
import java.util.concurrent.Callable;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.Dataset;
import org.apache.spark.sql.classic.SparkSession;

/** Carries out transaction statements in one session. */
final class TxnStatementRunner {

  private static final TxnLogger LOG = TxnLogger.of(TxnStatementRunner.class);
  private static final int ATOMIC_ATTEMPTS = 10;
  private static final long BACK_OFF_MS = 20;
  private static final long PAUSE_MAX_MS = 10_000;
  private static final String CONFLICT = "40001";

  private final SparkSession session;
  private final TxnSession state;

  TxnStatementRunner(SparkSession session) {
    this.session = session;
    this.state = TxnSession.of(session);
  }

  StatusRow run(TxnStatement statement) {
    state.touch();
    if (statement.endsOrBegins() && state.open().map(OpenTransaction::isAtomic).orElse(false)) {
      throw TxnException.invalidUsage(
          "2D000", "BEGIN, COMMIT and ROLLBACK are not possible inside BEGIN ATOMIC ... END");
    }
    if (statement instanceof TxnStatement.Begin begin) {
      return begin(begin.modes());
    } else if (statement instanceof TxnStatement.Commit) {
      return commit();
    } else if (statement instanceof TxnStatement.Rollback) {
      return rollback();
    } else if (statement instanceof TxnStatement.Savepoint savepoint) {
      return savepoint(savepoint.name());
    } else if (statement instanceof TxnStatement.RollbackTo rollbackTo) {
      return rollbackTo(rollbackTo.name());
    } else if (statement instanceof TxnStatement.Release release) {
      return release(release.name());
    } else if (statement instanceof TxnStatement.SetModes set) {
      state.checkNotAborted();
      state.setModes(set.modes());
    } else if (statement instanceof TxnStatement.SetDefaults set) {
      state.checkNotAborted();
      state.setDefaults(set.modes());
    } else if (statement instanceof TxnStatement.Comment comment) {
      return comment(comment.text());
    }
    return show();
  }

  /**
   * Runs a script as one transaction.
   *
   * @param script gives it, parsed anew for each run
   * @throws TxnException 25001 inside a transaction; 40001 when it has lost every race
   */
  StatusRow atomic(Callable<LogicalPlan> script) throws Exception {
    TxnModes modes = TxnModes.NONE;
    for (int attempt = 1; ; attempt++) {
      long startedNs = System.nanoTime();
      begin(modes);
      OpenTransaction transaction = state.require("BEGIN ATOMIC");
      transaction.markAtomic();
      modes = transaction.modes();
      try {
        if (transaction.alreadyCommitted().isEmpty()) {
          Dataset.ofRows(session, script.call());
        }
        transaction.endAtomic();
        return commit();
      } catch (Throwable e) {
        if (hasLanded(transaction, e)) {
          return transaction.row();
        }
        if (attempt == ATOMIC_ATTEMPTS || !isConflict(e)) {
          throw e;
        }
        Thread.sleep(
            pauseMs(attempt, TimeUnit.NANOSECONDS.toMillis(System.nanoTime() - startedNs)));
      }
    }
  }

  /**
   * Two blocks that take equally long would lose to each other in turns for ever, each beginning
   * when the other commits: a pause of up to what the lost attempt took brings them out of step.
   */
  private static long pauseMs(int attempt, long tookMs) {
    long mostMs = Math.max(attempt * BACK_OFF_MS, Math.min(tookMs, PAUSE_MAX_MS));
    return ThreadLocalRandom.current().nextLong(1, 1 + mostMs);
  }

  private static boolean isConflict(Throwable e) {
    return TxnSqlException.translated(e) instanceof TxnSqlException known
        && CONFLICT.equals(known.getSqlState());
  }

  /**
   * Rolls back what a block has left open, which may be a COMMIT that was refused.
   *
   * @return whether it has committed all the same
   * @throws TxnException what becomes of it is not known (08007): more than that it was refused
   */
  private boolean hasLanded(OpenTransaction transaction, Throwable failure) {
    transaction.endAtomic();
    if (state.open().filter(open -> open == transaction).isEmpty()) {
      return false; // COMMIT has ended it
    }
    try {
      rollback();
    } catch (TxnException e) {
      if (transaction.alreadyCommitted().isPresent()) {
        return true;
      }
      e.addSuppressed(failure);
      throw e;
    } catch (RuntimeException e) {
      failure.addSuppressed(e);
    }
    return false;
  }

  private StatusRow show() {
    return state.open().map(OpenTransaction::show).orElseGet(StatusRow::none);
  }

  private StatusRow begin(TxnModes modes) {
    state.checkNotAborted();
    if (state.open().isPresent()) {
      return state.begin(modes, null).row(); // refuses
    }
    IdleTimeout.seconds(session.sessionState().conf()); // refuses before anything has begun
    TransactionCatalog catalog = Catalogs.forBegin(session);
    PlanCaches.drop(session, state.catalogs());
    OpenTransaction begun = state.begin(modes, catalog);
    SessionEnds.of(session.sparkContext()).begun(session.sparkContext(), state);
    IdleTimeout.watch(session, state, begun);
    return begun.row();
  }

  private StatusRow commit() {
    OpenTransaction transaction = state.require("COMMIT");
    try {
      return state.commit();
    } finally {
      ended(transaction);
      if (state.isOpen(transaction)) {
        IdleTimeout.watch(session, state, transaction); // COMMIT may be tried again
      }
    }
  }

  private StatusRow rollback() {
    if (state.open().isEmpty()) {
      return StatusRow.none();
    }
    OpenTransaction transaction = state.require("ROLLBACK");
    state.end();
    try {
      return rolledBack(transaction);
    } finally {
      ended(transaction);
    }
  }

  private StatusRow rolledBack(OpenTransaction transaction) {
    if (transaction.alreadyCommitted().isPresent()) {
      transaction.giveUp();
      return transaction.row();
    }
    if (!transaction.isBound()) {
      transaction.giveUp();
      return StatusRow.unbound("rolled back", transaction.modes().id(), List.of());
    }
    StatusRow row = StatusRow.of("rolled back", transaction.transaction());
    transaction.transaction().rollback();
    if (transaction.isDoomed()) {
      state.noteLost(transaction);
    } else {
      transaction.catalog().handle().giveUp(transaction.transaction());
    }
    return row;
  }

  /** Spark's caches must not go on serving what the transaction saw. */
  private void ended(OpenTransaction transaction) {
    if (state.open().isEmpty() && transaction.isBound()) {
      refreshCaches(transaction);
    }
  }

  /** Whatever it meets, an outage or a cancelled job: the transaction's own outcome is told. */
  private void refreshCaches(OpenTransaction transaction) {
    try {
      PlanCaches.refresh(session, transaction.catalog());
    } catch (Exception e) {
      LOG.warn(
          LogFields.of(transaction.transaction().id()),
          "what is cached could not be read again and is dropped",
          e);
      PlanCaches.drop(session, List.of(transaction.catalog()));
    }
  }

  private StatusRow savepoint(String name) {
    OpenTransaction transaction = state.require("SAVEPOINT");
    state.checkNotAborted();
    if (transaction.alreadyCommitted().isEmpty()) {
      transaction.savepoint(name);
    }
    return transaction.row();
  }

  private StatusRow rollbackTo(String name) {
    OpenTransaction transaction = state.require("ROLLBACK TO");
    state.checkNotExpired();
    if (transaction.alreadyCommitted().isEmpty()) {
      transaction.rollbackTo(name);
      if (transaction.isBound()) {
        refreshCaches(transaction);
      }
    }
    return transaction.row();
  }

  private StatusRow release(String name) {
    OpenTransaction transaction = state.require("RELEASE");
    state.checkNotAborted();
    if (transaction.alreadyCommitted().isEmpty()) {
      transaction.release(name);
    }
    return transaction.row();
  }

  private StatusRow comment(String text) {
    OpenTransaction transaction = state.require("SET TRANSACTION COMMENT");
    state.checkNotAborted();
    if (transaction.alreadyCommitted().isEmpty()) {
      transaction.comment(text);
    }
    return transaction.row();
  }
}
