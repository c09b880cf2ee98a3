package io.txns.spark;

import java.util.List;
import org.apache.spark.sql.classic.SparkSession;

/** Carries out transaction statements in one session. */
final class StatementRunner {

  private final SparkSession session;
  private final TxnSession state;

  StatementRunner(SparkSession session) {
    this.session = session;
    this.state = TxnSession.of(session);
  }

  StatusRow run(TxnStatement statement) {
    state.touch();
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

  private StatusRow show() {
    return state.open().map(OpenTransaction::row).orElseGet(StatusRow::none);
  }

  private StatusRow begin(TxnModes modes) {
    state.checkNotAborted();
    if (state.open().isPresent()) {
      return state.begin(modes, null).row(); // refuses
    }
    IdleTimeout.seconds(session.sessionState().conf()); // refuses before anything has begun
    TxnSparkCatalog catalog = Catalogs.forBegin(session);
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

  private static StatusRow rolledBack(OpenTransaction transaction) {
    if (transaction.alreadyCommitted().isPresent()) {
      return transaction.row();
    }
    if (!transaction.isBound()) {
      return StatusRow.unbound("rolled back", transaction.modes().id(), List.of());
    }
    StatusRow row = StatusRow.of("rolled back", transaction.transaction());
    transaction.transaction().rollback();
    return row;
  }

  /** Spark's caches must not go on serving what the transaction saw. */
  private void ended(OpenTransaction transaction) {
    if (state.open().isEmpty() && transaction.isBound()) {
      PlanCaches.refresh(session, transaction.catalog());
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
        PlanCaches.refresh(session, transaction.catalog());
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
