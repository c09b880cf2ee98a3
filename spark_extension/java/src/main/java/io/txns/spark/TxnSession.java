package io.txns.spark;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.Transaction;
import io.txns.iceberg.TxnException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.WeakHashMap;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The transaction state of one Spark session, found by the session's identity.
 *
 * <p>An explicit transaction belongs to the session, whatever thread runs a statement: Spark
 * Connect and the Thrift server change threads between statements. Only the mark of a running write
 * statement belongs to a thread, because a statement begins and ends in one call.
 */
final class TxnSession {

  /** Runtime option: whether a failed statement aborts the explicit transaction. */
  static final String ABORT_ON_ERROR = "spark.sql.txns.abort-on-error";

  private static final String STATEMENT_SAVEPOINT = "__txns_statement";

  private static final Map<SparkSession, TxnSession> SESSIONS =
      Collections.synchronizedMap(new WeakHashMap<>());

  private final List<TxnSparkCatalog> catalogs = new CopyOnWriteArrayList<>();
  private final Map<Thread, Statement> statements = new ConcurrentHashMap<>();

  private OpenTransaction open;
  private TxnModes defaults = TxnModes.NONE;
  private TxnModes next = TxnModes.NONE;

  /** A write statement that runs; without a transaction of its own inside an explicit one. */
  private record Statement(TxnSparkCatalog catalog, Transaction transaction) {}

  private TxnSession() {}

  static TxnSession of(SparkSession session) {
    return SESSIONS.computeIfAbsent(session, unused -> new TxnSession());
  }

  /** Makes a catalog of the session known. */
  void add(TxnSparkCatalog catalog) {
    catalogs.add(catalog);
  }

  /** Forgets a catalog that turned out to be another session's. */
  void remove(TxnSparkCatalog catalog) {
    catalogs.remove(catalog);
  }

  /** The catalogs of ours that the session has loaded so far. */
  List<TxnSparkCatalog> catalogs() {
    return catalogs;
  }

  // The explicit transaction

  synchronized Optional<OpenTransaction> open() {
    return Optional.ofNullable(open);
  }

  /**
   * Begins; in {@code catalog}, or in the first that is touched when it is null.
   *
   * @throws TxnException 25001 inside a transaction
   */
  synchronized OpenTransaction begin(TxnModes modes, TxnSparkCatalog catalog) {
    if (open != null) {
      throw TxnException.invalidUsage(
          "25001", "a transaction is already open; COMMIT or ROLLBACK it first");
    }
    OpenTransaction begun = new OpenTransaction(modes.orElse(next).orElse(defaults));
    if (catalog != null) {
      begun.bind(catalog, options(begun.modes(), catalog));
    }
    next = TxnModes.NONE;
    open = begun;
    return begun;
  }

  /**
   * The open transaction.
   *
   * @throws TxnException 25P01 without one
   */
  synchronized OpenTransaction require(String statement) {
    if (open == null) {
      throw TxnException.invalidUsage(
          "25P01", statement + " without a transaction; begin one with BEGIN");
    }
    return open;
  }

  /** Takes the open transaction out of the session. */
  synchronized void end() {
    open = null;
  }

  /** SET TRANSACTION: for the open transaction, or else for the next one. */
  synchronized void setModes(TxnModes modes) {
    if (open == null) {
      next = modes.orElse(next);
      return;
    }
    if (open.isUsed()) {
      throw TxnException.invalidUsage(
          "25001",
          "SET TRANSACTION must come before the first statement that reads or writes; put the"
              + " modes after BEGIN");
    }
    TxnModes changed = modes.orElse(open.modes());
    open.changeModes(changed, open.isBound() ? options(changed, open.catalog()) : null);
  }

  synchronized void setDefaults(TxnModes modes) {
    defaults = modes.orElse(defaults);
  }

  private static BeginOptions options(TxnModes modes, TxnSparkCatalog catalog) {
    BeginOptions options = BeginOptions.defaults();
    if (modes.id() != null) {
      options = options.withId(modes.id());
    }
    if (modes.readOnly() != null) {
      options = options.withReadOnly(modes.readOnly());
    }
    if (modes.isolation() != null) {
      options = options.withIsolation(modes.isolation());
    }
    if (modes.asOf() != null) {
      options = options.withAsOf(Timestamps.toMillis(modes.asOf()));
    }
    if (modes.basis() != null) {
      long timeout = modes.timeoutMs() != null ? modes.timeoutMs() : options.basisTimeoutMs();
      options = options.withBasis(Timestamps.toMillis(modes.basis()), timeout);
    }
    return options;
  }

  // What catalogs and rules ask

  /**
   * The transaction that {@code catalog} works in now: the explicit one, else that of the write
   * statement that this thread runs, else null. The first catalog that asks gets a transaction that
   * has none yet.
   */
  synchronized Transaction current(TxnSparkCatalog catalog) {
    if (open == null) {
      Statement statement = statements.get(Thread.currentThread());
      return statement != null && statement.catalog() == catalog ? statement.transaction() : null;
    }
    if (!open.isBound()) {
      open.bind(catalog, options(open.modes(), catalog));
    }
    return open.catalog() == catalog && open.alreadyCommitted().isEmpty()
        ? open.transaction()
        : null;
  }

  /**
   * Something is about to be read or written.
   *
   * @throws TxnException 25P02 in an aborted transaction
   */
  synchronized void use() {
    if (open != null) {
      if (open.isAborted()) {
        throw abortedTransaction();
      }
      open.markUsed();
    }
  }

  /** Refuses any statement in an aborted transaction. */
  synchronized void checkNotAborted() {
    if (open != null && open.isAborted()) {
      throw abortedTransaction();
    }
  }

  private static TxnException abortedTransaction() {
    return TxnException.invalidUsage(
        "25P02",
        "the transaction is aborted because a statement in it failed; only ROLLBACK or ROLLBACK TO"
            + " a savepoint is accepted");
  }

  /** Whether the open transaction has committed earlier, so that writes are skipped. */
  synchronized boolean isSkipping() {
    return open != null && open.alreadyCommitted().isPresent();
  }

  /** Whether an explicit transaction is open that has not committed earlier. */
  synchronized boolean isExplicit() {
    return open != null && open.alreadyCommitted().isEmpty();
  }

  /** Notes a read that no commit check covers. */
  synchronized void recordUnprotected(String name) {
    if (open != null && open.alreadyCommitted().isEmpty()) {
      open.recordUnprotected(name);
    }
  }

  /**
   * Refuses what cannot be part of a transaction.
   *
   * @throws TxnException 0A000 inside an explicit transaction
   */
  synchronized void refuseInside(String what, String cure) {
    if (isExplicit()) {
      throw TxnException.unsupported(what + " cannot be part of a transaction; " + cure);
    }
  }

  /**
   * Checks that {@code target} may be written in the open transaction.
   *
   * @throws TxnException 25006 when it is read-only, 0A000 when the target is not in its catalog
   */
  synchronized void checkWrite(WriteTarget target) {
    if (!isExplicit()) {
      return;
    }
    TxnSparkCatalog catalog = target.catalog();
    if (catalog == null) {
      throw TxnException.unsupported(
          "a write to "
              + target.name()
              + " cannot be part of a transaction: it is not in a catalog of transactions; write it"
              + " before BEGIN or after COMMIT");
    }
    if (open.isBound() && open.catalog() != catalog) {
      throw TxnException.unsupported(
          "a write to "
              + target.name()
              + " cannot be part of this transaction, which belongs to catalog "
              + open.catalog().name());
    }
    if (open.isReadOnly()) {
      throw TxnException.invalidUsage(
          "25006", "a write to " + target.name() + " in a READ ONLY transaction");
    }
  }

  // Write statements

  /** Whether this thread is inside a write statement. */
  boolean isInStatement() {
    return statements.containsKey(Thread.currentThread());
  }

  /**
   * Runs a write statement. In an explicit transaction a failure aborts it; outside, and with a
   * catalog, the statement is an implicit transaction that reads everything at one moment.
   *
   * @param catalog the target's catalog, or null when it is not ours
   * @param skipped the answer when the transaction has committed earlier
   */
  <T> T write(SparkSession session, TxnSparkCatalog catalog, Supplier<T> skipped, Callable<T> body)
      throws Exception {
    if (catalog != null) {
      current(catalog); // only a transaction that has begun knows whether its id has committed
    }
    if (isSkipping()) {
      return skipped.get();
    }
    if (isInStatement()) {
      return body.call();
    }
    checkNotAborted();
    if (isExplicit()) {
      return writeExplicit(session, body);
    }
    return catalog == null ? body.call() : writeImplicit(catalog, body);
  }

  private <T> T writeImplicit(TxnSparkCatalog catalog, Callable<T> body) throws Exception {
    Statement statement = new Statement(catalog, catalog.handle().beginStatement());
    statements.put(Thread.currentThread(), statement);
    try {
      return body.call();
    } finally {
      statements.remove(Thread.currentThread());
    }
  }

  private <T> T writeExplicit(SparkSession session, Callable<T> body) throws Exception {
    boolean abortOnError = abortsOnError(session.sessionState().conf());
    if (!abortOnError) {
      withOpen(transaction -> transaction.savepoint(STATEMENT_SAVEPOINT));
    }
    statements.put(Thread.currentThread(), new Statement(null, null));
    try {
      T result = body.call();
      if (!abortOnError) {
        withOpen(transaction -> transaction.release(STATEMENT_SAVEPOINT));
      }
      return result;
    } catch (Throwable e) {
      failed(abortOnError, e);
      throw e;
    } finally {
      statements.remove(Thread.currentThread());
    }
  }

  private static boolean abortsOnError(SQLConf conf) {
    return Boolean.parseBoolean(conf.getConfString(ABORT_ON_ERROR, "true"));
  }

  /** The catalog has refused a write, perhaps before a statement's execution has begun. */
  synchronized void refused() {
    if (isExplicit() && abortsOnError(SQLConf.get())) {
      open.abort();
    }
  }

  private void failed(boolean abortOnError, Throwable failure) {
    try {
      withOpen(
          transaction -> {
            if (abortOnError) {
              transaction.abort();
            } else {
              transaction.rollbackTo(STATEMENT_SAVEPOINT);
              transaction.release(STATEMENT_SAVEPOINT);
            }
          });
    } catch (RuntimeException e) {
      failure.addSuppressed(e);
    }
  }

  private synchronized void withOpen(Consumer<OpenTransaction> action) {
    if (open != null) {
      action.accept(open);
    }
  }

  /** Ends the transaction: its row, and the session is without one, whatever happens. */
  StatusRow commit() {
    OpenTransaction transaction = require("COMMIT");
    Optional<Committed> earlier = transaction.alreadyCommitted();
    if (earlier.isEmpty()) {
      checkNotAborted();
    }
    end();
    if (earlier.isPresent()) {
      return StatusRow.committed(earlier.get(), List.of());
    }
    if (!transaction.isBound()) {
      return StatusRow.unbound("committed", transaction.modes().id(), new ArrayList<>());
    }
    Committed committed = transaction.transaction().commit();
    return StatusRow.committed(committed, transaction.transaction().unprotected());
  }
}
