package io.txns.iceberg.catalog;

import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.commit.CommitLoop;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.commit.Turn;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Limits;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.StagedTables;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.stage.WriteSet;
import io.txns.iceberg.stage.Writes;
import io.txns.iceberg.stage.WrittenSnapshot;
import io.txns.iceberg.table.DataTables;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Staged changes over many tables, what was read, and savepoints.
 *
 * <p>An explicit transaction keeps every change in memory until {@link #commit()}. An implicit one
 * stands for a single statement outside a transaction: its reads are pinned at one {@code read_ts},
 * its one Iceberg operation commits through the protocol at once. Threads of its session may write
 * at once: its {@link WriteSet} is their lock.
 */
public final class Transaction {
  /** Where a transaction is in its life. */
  public enum State {
    ACTIVE,
    ABORTED,
    COMMITTED,
    ROLLED_BACK
  }

  private final Begun begun;
  private final WriteSet writeSet;
  private final CommitAttempts attempts;
  private final Optional<EarlyDoom> doom;
  private volatile Isolation isolation;
  private volatile State state = State.ACTIVE;
  private volatile Committed committed;
  private volatile String comment = "";
  private volatile Turn turn;
  private volatile List<String> lostAt = List.of();
  private volatile TxnException loss;

  /**
   * @param head loaded when it was begun
   * @param readTs what every table is read at, in ms
   */
  public Transaction(
      DataTables tables,
      CommitLog log,
      WriteChecks checks,
      CommitLoop loop,
      Committer committer,
      TxnClock clock,
      Head head,
      long readTs,
      Begun begun) {
    this.begun = begun;
    this.isolation = begun.isolation();
    this.turn = Turn.first(head.upper());
    this.writeSet =
        new WriteSet(tables, log, checks, head, readTs, begun.explicit(), this::checkWritable);
    this.attempts =
        new CommitAttempts(committer, loop, new Leftovers(log, writeSet.writes()), begun, writeSet);
    this.doom = begun.toldEarly() ? Optional.of(new EarlyDoom(log, loop, clock)) : Optional.empty();
  }

  /** A transaction whose id has committed already: its statements are to be skipped. */
  public Transaction alreadyCommitted(Committed entry) {
    this.committed = entry;
    this.state = State.COMMITTED;
    return this;
  }

  /** How old it is, with the tries before it, and what is reserved for it. */
  public Turn turn() {
    return turn;
  }

  /** It, as a try that has its turn. */
  public Transaction inTurn(Turn newTurn) {
    turn = newTurn;
    return this;
  }

  /** For how long its commit has waited for others, in ms. */
  public long waitedMs() {
    return attempts.waitedMs();
  }

  /** The uuids of the tables at which it can lose again, once it is undone. */
  public List<String> lostAt() {
    return lostAt;
  }

  public String id() {
    return begun.id();
  }

  /** What every table is read at, in ms. */
  public long readTs() {
    return writeSet.readTs();
  }

  public Isolation isolation() {
    return isolation;
  }

  /** Raises the level so that what it has read, and will read, is validated at commit. */
  public void validateReads() {
    isolation = isolation.validatesReads() ? isolation : Isolation.SERIALIZABLE;
  }

  public boolean readOnly() {
    return begun.readOnly();
  }

  public State state() {
    return state;
  }

  /** Whether it was begun by its user; otherwise it stands for one statement. */
  public boolean explicit() {
    return begun.explicit();
  }

  /** What became of it; empty while it runs. */
  public Optional<Committed> committed() {
    return Optional.ofNullable(committed);
  }

  /**
   * Words for the entry, for people who read the archive.
   *
   * @throws TxnException 54000 above 4 KiB
   */
  public void comment(String words) {
    Limits.checkComment(words);
    this.comment = words;
  }

  String comment() {
    return comment;
  }

  /** Let nothing but a rollback go on: a statement of it has failed. */
  public void abort() {
    if (state == State.ACTIVE) {
      state = State.ABORTED;
    }
  }

  /** The tables that it has written. */
  public List<String> tables() {
    if (committed != null) {
      return committed.tables();
    }
    synchronized (writeSet) {
      return staged().changed().keySet().stream().map(TableIdentifier::toString).toList();
    }
  }

  /** What it has loaded, read and staged. */
  public WriteSet writeSet() {
    return writeSet;
  }

  private StagedTables staged() {
    return writeSet.staged();
  }

  /** The writes that run in it. */
  public Writes writes() {
    return writeSet.writes();
  }

  /** What it has read. */
  public ReadSet reads() {
    return writeSet.reads();
  }

  /** What it has read that nothing protects: other catalogs, files, unregistered tables. */
  public List<String> unprotected() {
    return reads().unprotected();
  }

  /** Note that a table was read as a whole, if it is under care; see {@link TxnTable} for scans. */
  public void recordRead(TableIdentifier table) {
    writeSet.noteRead(table);
  }

  /**
   * Note that a table's metadata was looked at, if it is under care, and perhaps none of its rows.
   */
  public void recordMetadataRead(TableIdentifier table) {
    writeSet.noteMetadataRead(table);
  }

  /** Note that something was read that nothing protects, by the name people know it by. */
  public void recordUnprotected(String name) {
    reads().unprotected(name);
  }

  /** Remember this moment under a name; a name used again hides the older one. */
  public void savepoint(String name) {
    synchronized (writeSet) {
      checkActive();
      attempts.checkNoneMayLand();
      staged().savepoint(name);
    }
  }

  /**
   * Undo what was staged since a savepoint; the savepoint stays, an aborted transaction goes on.
   *
   * @throws TxnException 3B001 for an unknown savepoint
   */
  public void rollbackTo(String name) {
    synchronized (writeSet) {
      if (state != State.ACTIVE && state != State.ABORTED) {
        throw TxnException.invalidUsage("25P01", "there is no transaction: start one with BEGIN");
      }
      attempts.checkNoneMayLand();
      LogFields.of(id()).in(Phase.STAGE).during(() -> writeSet.backTo(name));
      state = State.ACTIVE;
      loss = null; // by what it has undone, perhaps
    }
  }

  /**
   * Forget a savepoint and those after it; what was staged stays.
   *
   * @throws TxnException 3B001 for an unknown savepoint
   */
  public void release(String name) {
    synchronized (writeSet) {
      checkActive();
      attempts.checkNoneMayLand();
      staged().release(name);
    }
  }

  /** What it was told before its commit: it has lost. It is for its user to undo it. */
  public Optional<TxnException> loss() {
    return Optional.ofNullable(loss);
  }

  /** It had lost before what a savepoint has undone. */
  public void doom(TxnException lost) {
    loss = lost;
  }

  /**
   * A table is about to be read: who has only read cannot have lost.
   *
   * @throws TxnException 40001: it has lost, where it wants to be told early
   */
  void beforeRead() {
    look(true);
  }

  /**
   * A table is about to be written.
   *
   * @throws TxnException 40001: it has lost, where it wants to be told early
   */
  void beforeWrite() {
    look(false);
  }

  /**
   * A write runs, and stages what it does at its end: whether that would be in vain, as far as is
   * known. Empty as long as it may still commit; what is found is its {@link #loss()}.
   */
  public Optional<TxnException> lossWhileWriting() {
    try {
      beforeWrite();
    } catch (TxnException lost) {
      return Optional.of(lost);
    }
    return loss();
  }

  /** Whether it is to be told before its commit that it has lost. */
  public boolean isToldEarly() {
    return doom.isPresent();
  }

  /** Catalog and storage are asked without the lock: others go on, and may end it meanwhile. */
  private void look(boolean readsAlone) {
    if (!isToLook(readsAlone)) {
      return;
    }
    doom.get().ask();
    Map<TableIdentifier, StagedTable> seen;
    synchronized (writeSet) {
      if (!isToLook(readsAlone)) {
        return;
      }
      seen = staged().still();
    }
    try {
      doom.get().look(head -> attempts.checkStanding(seen, isolation, head));
    } catch (TxnException lost) {
      synchronized (writeSet) {
        if (state != State.ACTIVE || attempts.mayLand() || !staged().hasStill(seen)) {
          return;
        }
        loss = lost;
      }
      throw lost;
    }
  }

  private boolean isToLook(boolean readsAlone) {
    if (doom.isEmpty() || !doom.get().isDue()) {
      return false;
    }
    synchronized (writeSet) {
      return state == State.ACTIVE
          && !readOnly()
          && !attempts.mayLand()
          && !(readsAlone && staged().changed().isEmpty());
    }
  }

  /**
   * Commit; nothing is written for a transaction that only read.
   *
   * @throws TxnException 40001: definitely not committed, its files are deleted; 08007: ask with
   *     its id; 25P02: only a rollback is possible
   * @throws RuntimeException of the catalog or the storage, which is no outcome: it stays active,
   *     to be committed again or rolled back
   */
  public Committed commit() {
    return LogFields.of(id()).during(this::committing);
  }

  private Committed committing() {
    synchronized (writeSet) {
      if (state == State.COMMITTED) {
        return committed;
      }
      checkActive();
      Map<TableIdentifier, StagedTable> changes = staged().changed();
      if (changes.isEmpty()) {
        attempts.countEmpty();
      }
      committed =
          changes.isEmpty()
              ? new Committed(id(), readTs(), readTs(), true, List.of())
              : append(changes);
      state = State.COMMITTED;
      if (attempts.areOfAnotherTry()) {
        staged().discard();
      }
      staged().deleteDiscarded();
      return committed;
    }
  }

  private Committed append(Map<TableIdentifier, StagedTable> changes) {
    try {
      return attempts.commit(changes, isolation, comment, turn);
    } catch (RuntimeException e) {
      if (e instanceof TxnException known && known.kind() == ErrorKind.COMMIT_STATE_UNKNOWN) {
        leave(); // it may have committed: nothing that it wrote is deleted
      } else if (TxnException.isFinal(e)) {
        rollback();
      }
      throw e;
    } catch (Error e) {
      leave(); // nobody knows where it came from
      throw e;
    }
  }

  private void leave() {
    state = State.ABORTED;
    staged().leave();
  }

  /**
   * Undo everything and delete the files that were staged; harmless when it is over.
   *
   * @throws TxnException 25000: a commit that was refused has landed all the same; 08007: it may
   *     have, or may still, and nothing is undone or deleted
   */
  public void rollback() {
    LogFields.of(id()).in(Phase.STAGE).during(this::undo);
  }

  private void undo() {
    synchronized (writeSet) {
      if (state != State.ACTIVE && state != State.ABORTED) {
        return;
      }
      if (attempts.mayLand()) {
        settleRefused();
      }
      lostAt = writeSet.touched(isolation.validatesReads());
      attempts.removeLeftovers();
      staged().discard();
      state = State.ROLLED_BACK;
      staged().deleteDiscarded();
    }
  }

  /** Ask whether an attempt that was refused can still commit; what it needs stays then. */
  private void settleRefused() {
    Optional<Committed> landed;
    try {
      landed = attempts.settle();
    } catch (RuntimeException e) {
      leave();
      throw TxnException.commitStateUnknown(id(), e);
    }
    if (landed.isPresent()) {
      committed = landed.get();
      state = State.COMMITTED;
      throw TxnException.invalidUsage(
          "25000",
          String.format(
              "the transaction has committed, although the catalog refused it: there is nothing to"
                  + " roll back; txn=`%s` commit_ts=`%d`",
              id(), committed.commitTs()));
    }
    if (attempts.mayLand()) {
      leave();
      throw TxnException.commitStateUnknown(id(), null);
    }
  }

  /** Whether an attempt of it to commit may still land, or has, as far as is known. */
  public boolean mayLand() {
    return attempts.mayLand();
  }

  /**
   * An operation of an implicit transaction has committed. A MERGE WITH SCHEMA EVOLUTION has two,
   * and the second stands on the first: from here on everything is read as of this entry. What was
   * read before it still is what was read, since a level that validates reads has validated them.
   */
  void operationCommitted(Committed entry, StagedTable table) {
    synchronized (writeSet) {
      committed = entry;
      writes().note(table.written(table.snapshots()));
      writeSet.readAt(entry.commitTs());
    }
  }

  /** A statement has written a table that nobody registered. */
  void committedElsewhere(List<WrittenSnapshot> snapshots) {
    writes().note(snapshots);
  }

  /**
   * Refuse a write where there can be none.
   *
   * @throws TxnException 25006 in a read-only transaction; 25P02 in an aborted one
   */
  public void checkWritable() {
    checkActive();
    attempts.checkNoneMayLand();
    if (begun.readOnly()) {
      throw TxnException.invalidUsage(
          "25006", "a READ ONLY transaction does not write: begin one with READ WRITE");
    }
  }

  private void checkActive() {
    TxnException lost = loss;
    if (state == State.ABORTED && lost != null) {
      throw lost.again();
    }
    if (state == State.ABORTED) {
      throw TxnException.invalidUsage(
          "25P02",
          "a statement of the transaction has failed: only ROLLBACK or ROLLBACK TO is possible");
    }
    if (state != State.ACTIVE) {
      throw TxnException.invalidUsage("25P01", "there is no transaction: start one with BEGIN");
    }
  }
}
