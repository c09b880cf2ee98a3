package io.txns.spark.session;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.sql.TxnModes;
import java.lang.ref.WeakReference;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.function.Consumer;
import org.apache.spark.SparkContext;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The transaction state of one Spark session, found by the session's identity.
 *
 * <p>An explicit transaction belongs to the session, whatever thread runs a statement: Spark
 * Connect and the Thrift server change threads between writes.
 */
public final class TxnSession {
  private static final TxnLogger LOG = TxnLogger.of(TxnSession.class);

  /** What Spark sets in the threads of a streaming query. */
  private static final String STREAMING_QUERY = "sql.streaming.queryId";

  private static final Map<SparkSession, TxnSession> SESSIONS =
      Collections.synchronizedMap(new WeakHashMap<>());

  /** Who has something to undo is kept, whatever becomes of its session. */
  private static final Set<TxnSession> IN_TRANSACTION = ConcurrentHashMap.newKeySet();

  private final List<TransactionCatalog> catalogs = new CopyOnWriteArrayList<>();
  private final RunningWrites writes = new RunningWrites();

  private final TxnClock clock;
  private volatile long touchedAtMs;
  private volatile OpenTransaction open;
  private LostTransaction lost;
  private TxnModes defaults = TxnModes.NONE;
  private TxnModes next = TxnModes.NONE;

  private final SparkContext context;
  private final WeakReference<SparkSession> session; // it is the key that this is the value of

  private TxnSession(SparkSession session) {
    this(session, TxnClock.system());
  }

  TxnSession(SparkSession session, TxnClock clock) {
    this.clock = clock;
    this.touchedAtMs = clock.elapsedMs();
    this.context = session.sparkContext();
    this.session = new WeakReference<>(session);
  }

  public static TxnSession of(SparkSession session) {
    return SESSIONS.computeIfAbsent(session, TxnSession::new);
  }

  /** The states of the sessions in a transaction, also of those that are gone without its end. */
  static Set<TxnSession> inTransaction() {
    return Set.copyOf(IN_TRANSACTION);
  }

  /** Makes a catalog of the session known. */
  public void add(TransactionCatalog catalog) {
    catalogs.add(catalog);
  }

  /** Forgets a catalog that turned out to be another session's. */
  public void remove(TransactionCatalog catalog) {
    catalogs.remove(catalog);
  }

  /** The catalogs of ours that the session has loaded so far. */
  public List<TransactionCatalog> catalogs() {
    return catalogs;
  }

  /** The catalog options that the session has set for itself. */
  public Map<String, String> options() {
    SparkSession found = session.get();
    return found == null ? Map.of() : SessionOptions.of(found.sessionState().conf());
  }

  // Its end without COMMIT or ROLLBACK

  /** Somebody works with the transaction. */
  public void touch() {
    touchedAtMs = clock.elapsedMs();
  }

  /** For how long nobody has worked with the transaction, in ms. */
  long idleMs() {
    return clock.elapsedMs() - touchedAtMs;
  }

  /** Undoes {@code transaction} if it is still the open one; the session is told when it asks. */
  synchronized void expire(OpenTransaction transaction, String why) {
    if (open == transaction && transaction.expired().isEmpty()) {
      transaction.expire(why);
    }
  }

  /** The session has ended: whatever is open is undone, and its files are deleted. */
  void abandon() {
    OpenTransaction left;
    synchronized (this) {
      left = open;
      setOpen(null);
      if (lost != null) {
        lost.giveUp();
        lost = null;
      }
    }
    if (left != null && left.isBound() && left.alreadyCommitted().isEmpty()) {
      undo(left.transaction());
    }
    if (left != null) {
      left.giveUp();
    }
  }

  /** Nobody is there any more to be told what becomes of it. */
  private static void undo(Transaction left) {
    try {
      left.rollback();
    } catch (RuntimeException e) {
      LOG.warn(
          LogFields.of(left.id()), "a session has ended, and its transaction is not undone", e);
    }
  }

  // The explicit transaction

  public synchronized Optional<OpenTransaction> open() {
    return Optional.ofNullable(visible());
  }

  /** Whether it is the open one; waits for no statement. */
  public boolean isOpen(OpenTransaction transaction) {
    return open == transaction;
  }

  /**
   * The open transaction, as the running thread may see it. A stream that was started from the
   * session goes on beside it: its batches are not part of what the session begins and ends. Nor is
   * a single write that ran already when another thread began.
   */
  private OpenTransaction visible() {
    boolean besides = open != null && (isBesideStream() || writes.isImplicit());
    return besides ? null : open;
  }

  private boolean isBesideStream() {
    return !open.isOfStream() && isStream();
  }

  /** Whether this thread runs a streaming query's batches. */
  private boolean isStream() {
    return context.getLocalProperty(STREAMING_QUERY) != null;
  }

  /**
   * Begins; in {@code catalog}, or in the first that is touched when it is null.
   *
   * @throws TxnException 25001 inside a transaction
   */
  public OpenTransaction begin(TxnModes modes, TransactionCatalog catalog) {
    LostTransaction before = takeLost(modes);
    try {
      if (before != null) {
        before.awaitTurn(); // outside of the monitor: SHOW, CANCEL and time-outs go on
      }
      return beginAfter(before, modes, catalog);
    } catch (RuntimeException e) {
      if (before != null) {
        before.giveUp();
      }
      throw e;
    }
  }

  private synchronized OpenTransaction beginAfter(
      LostTransaction before, TxnModes modes, TransactionCatalog catalog) {
    refuseToBegin();
    OpenTransaction begun = new OpenTransaction(wanted(modes), isStream(), before);
    if (catalog != null) {
      begun.bind(catalog, beginning(begun.modes()));
    }
    next = TxnModes.NONE;
    setOpen(begun);
    return begun;
  }

  private void refuseToBegin() {
    if (open != null) {
      throw TxnException.invalidUsage(
          "25001", "a transaction is already open; COMMIT or ROLLBACK it first");
    }
  }

  private TxnModes wanted(TxnModes modes) {
    return modes.orElse(next).orElse(defaults);
  }

  /** How a transaction of this session begins. */
  private BeginOptions beginning(TxnModes modes) {
    SparkSession found = session.get();
    boolean early = found != null && SessionOptions.tellsEarly(found.sessionState().conf());
    return modes.options().withToldEarly(early);
  }

  /** The try before what begins with {@code modes}; null for none, and then it is given up. */
  private synchronized LostTransaction takeLost(TxnModes modes) {
    refuseToBegin();
    LostTransaction before = lost;
    lost = null;
    if (before == null || before.isFollowedBy(wanted(modes))) {
      return before;
    }
    before.giveUp();
    return null;
  }

  /**
   * The open transaction.
   *
   * @throws TxnException 25P01 without one
   */
  public synchronized OpenTransaction require(String statement) {
    if (visible() == null) {
      throw TxnException.invalidUsage(
          "25P01", statement + " without a transaction; begin one with BEGIN");
    }
    return open;
  }

  /** Takes the open transaction out of the session. */
  public synchronized void end() {
    touch();
    setOpen(null);
  }

  private void setOpen(OpenTransaction transaction) {
    open = transaction;
    if (transaction == null) {
      IN_TRANSACTION.remove(this);
    } else {
      IN_TRANSACTION.add(this);
    }
  }

  /** SET TRANSACTION: for the open transaction, or else for the next one. */
  public synchronized void setModes(TxnModes modes) {
    if (open == null) {
      next = modes.orElse(next);
      return;
    }
    if (open.isOnlyRaisedBy(modes)) {
      open.validateReads(modes);
      return;
    }
    if (open.isUsed()) {
      throw TxnException.invalidUsage(
          "25001",
          "SET TRANSACTION must come before the first statement that reads or writes, but for"
              + " ISOLATION LEVEL SERIALIZABLE; put the modes after BEGIN");
    }
    TxnModes changed = modes.orElse(open.modes());
    open.changeModes(changed, open.isBound() ? beginning(changed) : null);
  }

  public synchronized void setDefaults(TxnModes modes) {
    defaults = modes.orElse(defaults);
  }

  // What catalogs and rules ask

  /**
   * The transaction that {@code catalog} works in now: the explicit one, else that of the write
   * that this thread runs, else null. The first catalog that asks gets a transaction that has none
   * yet.
   */
  public synchronized Transaction current(TransactionCatalog catalog) {
    RunningWrites.Write write = writes.ofThisThread();
    if (write != null && write.owner() != null) {
      checkStillOpen(write.owner());
    }
    if (visible() == null) {
      return write != null && write.catalog() == catalog ? write.transaction() : null;
    }
    if (!open.isBound()) {
      open.bind(catalog, beginning(open.modes()));
    }
    return open.catalog() == catalog && open.alreadyCommitted().isEmpty()
        ? open.transaction()
        : null;
  }

  /** A statement whose transaction has ended meanwhile must not go on as one of its own. */
  private void checkStillOpen(OpenTransaction owner) {
    if (owner.expired().isPresent()) {
      throw TxnException.invalidUsage("25P03", owner.expired().get());
    } else if (open != owner) {
      throw TxnException.invalidUsage(
          "25P01",
          "the transaction of this statement has ended while the statement was running; nothing of"
              + " the statement was kept, run it again from BEGIN");
    }
  }

  /**
   * Something is about to be read or written.
   *
   * @throws TxnException 25P02 in an aborted transaction
   */
  public synchronized void use() {
    touch();
    if (visible() != null) {
      if (open.isAborted()) {
        throw open.whyAborted();
      }
      open.markUsed();
    }
  }

  /** Refuses any statement in an aborted transaction. */
  public synchronized void checkNotAborted() {
    if (visible() != null && open.isAborted()) {
      throw open.whyAborted();
    }
  }

  /** Refuses to go on with a transaction that was undone without having been asked to. */
  public synchronized void checkNotExpired() {
    if (visible() != null && open.expired().isPresent()) {
      throw open.whyAborted();
    }
  }

  /** Whether the open transaction has committed earlier, so that writes are skipped. */
  public synchronized boolean isSkipping() {
    return visible() != null && open.alreadyCommitted().isPresent();
  }

  /** Whether an explicit transaction is open that has not committed earlier. */
  public synchronized boolean isExplicit() {
    return visible() != null && open.alreadyCommitted().isEmpty();
  }

  /** Notes a read that no commit check covers. */
  public synchronized void recordUnprotected(String name) {
    if (visible() != null && open.alreadyCommitted().isEmpty()) {
      open.recordUnprotected(name);
    }
  }

  /**
   * Refuses what cannot be part of a transaction.
   *
   * @throws TxnException 0A000 inside an explicit transaction
   */
  public synchronized void refuseInside(String what, String cure) {
    if (isExplicit()) {
      throw TxnException.unsupported(what + " cannot be part of a transaction; " + cure);
    }
  }

  /**
   * Checks that {@code target} may be written in the open transaction. Asked by {@link
   * SessionWrites}, which runs what is sent as SQL, planned or called. And by the catalog, which
   * whoever has it may use without a plan: where all tables come under care, they do so when a plan
   * loads them to be written, which is before it runs.
   *
   * @throws TxnException 25006 when it is read-only, 0A000 when the target is not in its catalog
   */
  public synchronized void checkWrite(WriteTarget target) {
    if (isExplicit()) {
      open.checkWrite(target);
    }
  }

  // Writes

  RunningWrites writes() {
    return writes;
  }

  /** Whether this thread is inside a write. */
  public boolean isInWrite() {
    return writes.ofThisThread() != null;
  }

  /** A script undoes its failed statement alone: it may handle the error, or else ends by it. */
  synchronized boolean abortsOnError(SQLConf conf) {
    return (open == null || !open.isAtomic()) && SessionOptions.abortsOnError(conf);
  }

  /** The catalog has refused a write, perhaps before a statement's execution has begun. */
  public synchronized void refused() {
    if (isExplicit() && abortsOnError(SQLConf.get())) {
      open.abort();
    }
  }

  /** Does something with a transaction, unless it has ended in the meantime. */
  synchronized void ifOpen(OpenTransaction transaction, Consumer<OpenTransaction> action) {
    if (open == transaction && transaction.expired().isEmpty()) {
      action.accept(transaction);
    }
  }

  /**
   * Ends the transaction: its row. The session is without one then, unless what went wrong is no
   * outcome: COMMIT may be tried again.
   */
  public StatusRow commit() {
    OpenTransaction transaction = require("COMMIT");
    Optional<Committed> earlier = transaction.alreadyCommitted();
    if (earlier.isEmpty() && transaction.hasLost()) {
      throw lose(transaction);
    }
    if (earlier.isEmpty()) {
      checkNotAborted();
    }
    end();
    if (earlier.isPresent()) {
      transaction.giveUp();
      return StatusRow.committed(earlier.get(), List.of());
    }
    if (!transaction.isBound()) {
      transaction.giveUp();
      return StatusRow.unbound("committed", transaction.modes().id(), new ArrayList<>());
    }
    try {
      Rehearsal.lose(session.get(), transaction.transaction());
      Committed committed = transaction.transaction().commit();
      if (committed.tables().isEmpty()) {
        transaction.giveUp(); // no record has taken it out
      }
      return StatusRow.committed(committed, transaction.transaction().unprotected());
    } catch (RuntimeException e) {
      reopen(transaction);
      note(transaction, e);
      throw e;
    }
  }

  /** Ends what has lost, as a statement was told; gives what COMMIT is told. */
  private TxnException lose(OpenTransaction transaction) {
    TxnException told = transaction.whyAborted();
    end();
    transaction.transaction().rollback();
    noteLost(transaction);
    return told;
  }

  /** Who has lost, and is undone, is tried again, perhaps. */
  public synchronized void noteLost(OpenTransaction transaction) {
    lost = transaction.lost();
  }

  /** What ends otherwise needs its turn no more. */
  private synchronized void note(OpenTransaction transaction, RuntimeException e) {
    if (e instanceof TxnException known && known.kind() == ErrorKind.CONFLICT) {
      noteLost(transaction);
    } else if (open != transaction) {
      transaction.giveUp();
    }
  }

  private synchronized void reopen(OpenTransaction transaction) {
    if (open == null && transaction.transaction().state() == Transaction.State.ACTIVE) {
      setOpen(transaction);
    }
  }
}
