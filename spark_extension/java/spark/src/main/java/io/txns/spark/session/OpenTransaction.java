package io.txns.spark.session;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.catalog.Transaction;
import io.txns.spark.sql.TxnModes;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;

/**
 * What lies between BEGIN and COMMIT in one session: a transaction of one catalog, or of none as
 * long as none has been touched. Not thread-safe: {@link TxnSession} is its monitor.
 */
public final class OpenTransaction {

  private final boolean ofStream;
  private final Instant begunAt = Instant.ofEpochMilli(TxnClock.system().nowMs());
  private TxnModes modes;
  private TransactionCatalog catalog;
  private volatile Transaction transaction; // whoever looks after a write does not wait for it
  private LostTransaction before; // it may be told only by later modes that it is none
  private long boundMs;
  private boolean used;
  private boolean atomic;
  private boolean ofScript;

  // What was said before there was a catalog.
  private final List<String> savepoints = new ArrayList<>();
  private final List<String> unprotected = new ArrayList<>();
  private String comment;
  private boolean aborted;
  private String expired;

  /**
   * @param ofStream whether a streaming query's thread begins it, in {@code foreachBatch}
   * @param before the try before, which has lost; null for none
   */
  OpenTransaction(TxnModes modes, boolean ofStream, LostTransaction before) {
    this.before = before;
    this.modes = modes;
    this.comment = modes.comment();
    this.ofStream = ofStream;
  }

  boolean isOfStream() {
    return ofStream;
  }

  /** The moment of BEGIN, which is CURRENT_TIMESTAMP for all its statements. */
  public Instant begunAt() {
    return begunAt;
  }

  /** Begins in {@code catalog}, for good; what was said before is said again there. */
  void bind(TransactionCatalog toCatalog, BeginOptions options) {
    if (before != null && before.catalog() != toCatalog) {
      before.giveUp();
      before = null;
    }
    bind(toCatalog, before == null ? toCatalog.handle().begin(options) : before.again(options));
  }

  private void bind(TransactionCatalog toCatalog, Transaction begun) {
    catalog = toCatalog;
    transaction = begun;
    boundMs = TxnClock.system().elapsedMs();
    if (comment != null) {
      begun.comment(comment);
    }
    savepoints.forEach(begun::savepoint);
    unprotected.forEach(begun::recordUnprotected);
    if (aborted) {
      begun.abort();
    }
  }

  /** It ends without a record, and without a next try: what is reserved is taken out, soon. */
  public void giveUp() {
    if (isBound()) {
      giveUp(transaction);
    } else if (before != null) {
      before.giveUp();
    }
    before = null;
  }

  /** It, after it has lost. */
  LostTransaction lost() {
    return LostTransaction.now(transaction, catalog, boundMs, modes.comment());
  }

  public boolean isBound() {
    return transaction != null;
  }

  public TransactionCatalog catalog() {
    return catalog;
  }

  /** The transaction, or null while no catalog is touched. */
  public Transaction transaction() {
    return transaction;
  }

  public TxnModes modes() {
    return modes;
  }

  /** Whether anything has been read or written, so that the modes are fixed. */
  boolean isUsed() {
    return used;
  }

  void markUsed() {
    used = true;
  }

  /** Begins once more with other modes; only while nothing is read or written. */
  void changeModes(TxnModes newModes, BeginOptions options) {
    modes = newModes;
    comment = newModes.comment() != null ? newModes.comment() : comment;
    if (isBound()) {
      Transaction old = transaction;
      transaction = null;
      old.rollback();
      bind(catalog, begunInsteadOf(old, options));
    }
  }

  /** It keeps the turn, unless its modes make it another one than the try before. */
  private Transaction begunInsteadOf(Transaction old, BeginOptions options) {
    boolean keeps = before != null && before.isTriedAgainBy(modes);
    if (!keeps) {
      giveUp(old);
      return catalog.handle().begin(options);
    }
    try {
      return catalog.handle().begin(options).inTurn(old.turn());
    } catch (RuntimeException e) {
      giveUp(old); // nobody else knows of it
      throw e;
    }
  }

  private void giveUp(Transaction old) {
    before = null;
    LostTransaction.giveUp(old, catalog);
  }

  /** Whether {@code said} only has more of it validated, for which it need not begin once more. */
  boolean isOnlyRaisedBy(TxnModes said) {
    if (!said.isOnlyIsolation() || !said.isolation().validatesReads()) {
      return false;
    }
    boolean isBelow = isBound() && !transaction.isolation().validatesReads();
    return used || (isBelow && said.isolation() == Isolation.SERIALIZABLE);
  }

  /**
   * Checks that {@code target} may be written in it.
   *
   * @throws TxnException 25006 when it is read-only, 0A000 when the target is not in its catalog
   */
  void checkWrite(WriteTarget target) {
    TransactionCatalog to = target.catalog();
    if (to == null) {
      throw TxnException.unsupported(
          target.what()
              + " cannot be part of a transaction: it is not in a catalog of transactions; run it"
              + " before BEGIN or after COMMIT");
    }
    if (isBound() && catalog != to) {
      throw TxnException.unsupported(
          target.what()
              + " cannot be part of this transaction, which belongs to catalog "
              + catalog.name());
    }
    if (isReadOnly()) {
      throw TxnException.invalidUsage("25006", target.what() + " in a READ ONLY transaction");
    }
  }

  /** Has what was and will be read validated, too; the reads of every level are noted for it. */
  void validateReads(TxnModes newModes) {
    modes = newModes.orElse(modes);
    if (isBound()) {
      transaction.validateReads();
    }
  }

  /** Undoes everything because nobody goes on with it; what it is refused with says why. */
  void expire(String why) {
    expired = why;
    if (isBound()) {
      transaction.rollback();
    }
    giveUp();
  }

  /** Why it was undone without having been asked to; empty while it was not. */
  Optional<String> expired() {
    return Optional.ofNullable(expired);
  }

  /** A script runs in it that ends it: failed statements of the script may have handlers there. */
  public void markAtomic() {
    atomic = true;
    ofScript = true;
  }

  public void endAtomic() {
    atomic = false;
  }

  public boolean isAtomic() {
    return atomic;
  }

  /** Whether a statement was told that the transaction has lost. */
  public boolean isDoomed() {
    return loss().isPresent();
  }

  private Optional<TxnException> loss() {
    return isBound() ? transaction.loss() : Optional.empty();
  }

  /**
   * Whether it is aborted because it has lost. A script that handles the error goes on, and loses
   * at its end; then it runs again.
   */
  boolean hasLost() {
    return !ofScript && expired == null && isDoomed();
  }

  /** Why nothing goes on in it; of its loss a program may not have heard before. */
  TxnException whyAborted() {
    if (expired != null) {
      return TxnException.invalidUsage("25P03", expired);
    }
    Optional<TxnException> loss = hasLost() ? loss() : Optional.empty();
    if (loss.isPresent()) {
      return loss.get().again();
    }
    return TxnException.invalidUsage(
        "25P02",
        "the transaction is aborted because a statement in it failed; only ROLLBACK or ROLLBACK TO"
            + " a savepoint is accepted");
  }

  boolean isAborted() {
    return expired != null || isAbortedByFailure();
  }

  private boolean isAbortedByFailure() {
    return hasLost() || (isBound() ? transaction.state() == Transaction.State.ABORTED : aborted);
  }

  /** The outcome of an earlier transaction with the id of this one: nothing is to be done again. */
  public Optional<Committed> alreadyCommitted() {
    return isBound() ? transaction.committed() : Optional.empty();
  }

  boolean isReadOnly() {
    return isBound() ? transaction.readOnly() : Boolean.TRUE.equals(modes.readOnly());
  }

  void abort() {
    if (isBound()) {
      transaction.abort();
    } else {
      aborted = true;
    }
  }

  public void savepoint(String name) {
    if (isBound()) {
      transaction.savepoint(name);
    } else {
      savepoints.add(name);
    }
  }

  public void rollbackTo(String name) {
    if (isBound()) {
      transaction.rollbackTo(name);
    } else {
      savepoints.subList(lastSavepoint(name) + 1, savepoints.size()).clear();
      aborted = false;
    }
  }

  /** Undoes a failed statement alone: what had lost before it has lost. */
  void undo(String savepoint) {
    Optional<TxnException> lost = loss();
    rollbackTo(savepoint);
    release(savepoint);
    lost.ifPresent(loss -> transaction.doom(loss));
  }

  public void release(String name) {
    if (isBound()) {
      transaction.release(name);
    } else {
      savepoints.subList(lastSavepoint(name), savepoints.size()).clear();
    }
  }

  private int lastSavepoint(String name) {
    int last = savepoints.lastIndexOf(name);
    if (last < 0) {
      throw TxnException.invalidUsage("3B001", "savepoint " + name + " does not exist");
    }
    return last;
  }

  public void comment(String text) {
    comment = text;
    if (isBound()) {
      transaction.comment(text);
    }
  }

  void recordUnprotected(String name) {
    if (isBound()) {
      transaction.recordUnprotected(name);
    } else if (!unprotected.contains(name)) {
      unprotected.add(name);
    }
  }

  /** Its row, with how it would commit, where its options are such that it would. */
  public StatusRow show() {
    StatusRow row = row();
    if (!isBound()) {
      return row;
    }
    try {
      return row.showing(catalog.handle().applyMode().toString(), catalog.handle().reservations());
    } catch (TxnException e) {
      return row; // COMMIT is told what is wrong with them
    }
  }

  public StatusRow row() {
    if (alreadyCommitted().isPresent()) {
      return StatusRow.committed(alreadyCommitted().get(), List.of());
    }
    String state = isAborted() ? "aborted" : "active";
    return isBound()
        ? StatusRow.of(state, transaction)
        : StatusRow.unbound(state, modes.id(), List.copyOf(unprotected));
  }
}
