package io.txns.iceberg.catalog;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.StagedTables;
import io.txns.iceberg.stage.Writes;
import io.txns.iceberg.stage.WrittenSnapshot;
import io.txns.iceberg.table.DataTables;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * Staged changes over many tables, what was read, and savepoints.
 *
 * <p>An explicit transaction keeps every change in memory until {@link #commit()}. An implicit one
 * stands for a single statement outside a transaction: its reads are pinned at one {@code read_ts},
 * its one Iceberg operation commits through the protocol at once. Threads of its session may write
 * at once: their operations are staged one after the other.
 */
public final class Transaction {
  /** Where a transaction is in its life. */
  public enum State {
    ACTIVE,
    ABORTED,
    COMMITTED,
    ROLLED_BACK
  }

  private final TxnHandle handle;
  private Head head;
  private final BeginOptions options;
  private final String id;
  private volatile long readTs;
  private final long bornMs;
  private Isolation isolation;
  private final boolean explicit;
  private final ReadSet reads = new ReadSet();
  private final Writes writes = new Writes();
  private final Map<TableIdentifier, DataTables.Loaded> loaded = new LinkedHashMap<>();
  private final StagedTables staged = new StagedTables(writes);
  private final CommitGroup.Attempts attempts = new CommitGroup.Attempts();
  private final Leftovers leftovers;
  private State state = State.ACTIVE;
  private Committed committed;
  private String comment = "";

  public Transaction(
      TxnHandle handle,
      Head head,
      BeginOptions options,
      String id,
      long readTs,
      Isolation isolation,
      boolean explicit,
      long bornMs) {
    this.handle = handle;
    this.leftovers = new Leftovers(handle.log());
    this.head = head;
    this.options = options;
    this.id = id;
    this.readTs = readTs;
    this.isolation = isolation;
    this.explicit = explicit;
    this.bornMs = bornMs;
  }

  /** A transaction whose id has committed already: its statements are to be skipped. */
  public Transaction alreadyCommitted(Committed entry) {
    this.committed = entry;
    this.state = State.COMMITTED;
    return this;
  }

  public String id() {
    return id;
  }

  /** What every table is read at, in ms. */
  public long readTs() {
    return readTs;
  }

  public synchronized Isolation isolation() {
    return isolation;
  }

  /** Raises the level so that what it has read, and will read, is validated at commit. */
  public synchronized void validateReads() {
    isolation = isolation.validatesReads() ? isolation : Isolation.SERIALIZABLE;
  }

  public boolean readOnly() {
    return options.readOnly();
  }

  public State state() {
    return state;
  }

  /** Whether it was begun by its user; otherwise it stands for one statement. */
  public boolean explicit() {
    return explicit;
  }

  /** What became of it; empty while it runs. */
  public Optional<Committed> committed() {
    return Optional.ofNullable(committed);
  }

  /** Words for the entry, for people who read the archive. */
  public void comment(String words) {
    this.comment = words;
  }

  /** Let nothing but a rollback go on: a statement of it has failed. */
  public void abort() {
    if (state == State.ACTIVE) {
      state = State.ABORTED;
    }
  }

  /** The tables that it has written. */
  public synchronized List<String> tables() {
    if (committed != null) {
      return committed.tables();
    }
    return staged.changed().keySet().stream().map(TableIdentifier::toString).toList();
  }

  /** What it has read that nothing protects: other catalogs, files, unregistered tables. */
  public List<String> unprotected() {
    return reads.unprotected();
  }

  /** Note that a table was read as a whole, if it is under care; see {@link TxnTable} for scans. */
  public void recordRead(TableIdentifier table) {
    DataTables.Loaded known = loaded.get(table);
    if (known == null) {
      reads.table(table, null);
    } else if (known.registered()) {
      reads.table(table, known.view().metadata().uuid());
    }
  }

  /** The same, of a table that was loaded outside of the transaction perhaps. */
  public void recordRead(TxnTable table) {
    reads.table(table.identifier(), table.tableUuid());
  }

  /**
   * Note that a table's metadata was looked at, if it is under care, and perhaps none of its rows.
   */
  public void recordMetadataRead(TableIdentifier table) {
    DataTables.Loaded known = loaded.get(table);
    if (known == null || known.registered()) {
      reads.metadata(table, known == null ? null : known.view().metadata().uuid());
    }
  }

  /** The same, of a table that was loaded outside of the transaction perhaps. */
  public void recordMetadataRead(TxnTable table) {
    reads.metadata(table.identifier(), table.tableUuid());
  }

  /**
   * Note that a statement writes a table by what it holds, as MERGE, UPDATE, DELETE and overwrites
   * do, whether it finds something to write or not.
   */
  public void recordConditionalWrite(TxnTable table) {
    reads.conditionalWrite(table.identifier(), table.tableUuid());
  }

  /** Note that something was read that nothing protects, by the name people know it by. */
  public void recordUnprotected(String name) {
    reads.unprotected(name);
  }

  /** The writes that run in it. */
  public Writes writes() {
    return writes;
  }

  /** Remember this moment under a name; a name used again hides the older one. */
  public synchronized void savepoint(String name) {
    checkActive();
    checkUnattempted();
    staged.savepoint(name);
  }

  /**
   * Undo what was staged since a savepoint; the savepoint stays, an aborted transaction goes on.
   *
   * @throws TxnException 3B001 for an unknown savepoint
   */
  public synchronized void rollbackTo(String name) {
    if (state != State.ACTIVE && state != State.ABORTED) {
      throw TxnException.invalidUsage("25P01", "there is no transaction: start one with BEGIN");
    }
    checkUnattempted();
    staged.backTo(name).forEach(loaded::remove);
    state = State.ACTIVE;
  }

  /**
   * Forget a savepoint and those after it; what was staged stays.
   *
   * @throws TxnException 3B001 for an unknown savepoint
   */
  public synchronized void release(String name) {
    checkActive();
    checkUnattempted();
    staged.release(name);
  }

  /**
   * Commit; nothing is written for a transaction that only read.
   *
   * @throws TxnException 40001: definitely not committed, its files are deleted; 08007: ask with
   *     its id; 25P02: only a rollback is possible
   * @throws RuntimeException of the catalog or the storage, which is no outcome: it stays active,
   *     to be committed again or rolled back
   */
  public synchronized Committed commit() {
    if (state == State.COMMITTED) {
      return committed;
    }
    checkActive();
    Map<TableIdentifier, StagedTable> changes = staged.changed();
    if (changes.isEmpty()) {
      committed = new Committed(id, readTs, readTs, true, List.of());
      state = State.COMMITTED;
      staged.deleteDiscarded();
      return committed;
    }
    try {
      committed = handle.commit(this, changes);
    } catch (RuntimeException e) {
      if (e instanceof TxnException known && known.kind() == ErrorKind.COMMIT_STATE_UNKNOWN) {
        state = State.ABORTED; // it may have committed: nothing that it wrote is deleted
        staged.leave();
      } else if (TxnException.isFinal(e)) {
        rollback();
      }
      throw e;
    } catch (Error e) {
      state = State.ABORTED; // nobody knows where it came from
      staged.leave();
      throw e;
    }
    state = State.COMMITTED;
    if (leftovers.areOfAnotherTry()) {
      staged.discard();
    }
    staged.deleteDiscarded();
    return committed;
  }

  /**
   * Undo everything and delete the files that were staged; harmless when it is over.
   *
   * @throws TxnException 25000: a commit that was refused has landed all the same; 08007: it may
   *     have, or may still, and nothing is undone or deleted
   */
  public synchronized void rollback() {
    if (state != State.ACTIVE && state != State.ABORTED) {
      return;
    }
    if (attempts.mayLand()) {
      settleRefused();
    }
    leftovers.removeAllBut(staged.all());
    staged.discard();
    state = State.ROLLED_BACK;
    staged.deleteDiscarded();
  }

  /** Ask whether an attempt that was refused can still commit; what it needs stays then. */
  private void settleRefused() {
    Optional<Entry> landed;
    try {
      landed = handle.settle(this);
    } catch (RuntimeException e) {
      throw unknown(e);
    }
    if (landed.isPresent()) {
      committed = handle.committed(landed.get());
      state = State.COMMITTED;
      throw TxnException.invalidUsage(
          "25000",
          String.format(
              "the transaction has committed, although the catalog refused it: there is nothing to"
                  + " roll back; txn=`%s` commit_ts=`%d`",
              id, landed.get().commitTs()));
    }
    if (attempts.mayLand()) {
      throw unknown(null);
    }
  }

  private TxnException unknown(RuntimeException cause) {
    state = State.ABORTED;
    staged.leave();
    return TxnException.commitStateUnknown(id, cause);
  }

  /** What a refused commit may still land as must not be changed. */
  private void checkUnattempted() {
    if (attempts.mayLand()) {
      throw TxnException.invalidUsage(
          "25000",
          String.format(
              "a refused commit of the transaction may still land: COMMIT again, or ROLLBACK;"
                  + " txn=`%s`",
              id));
    }
  }

  /** What is known of its attempts to commit. */
  public CommitGroup.Attempts attempts() {
    return attempts;
  }

  /** What its attempts to commit have written and may not need. */
  public Leftovers leftovers() {
    return leftovers;
  }

  public ReadSet reads() {
    return reads;
  }

  public long bornMs() {
    return bornMs;
  }

  public String comment() {
    return comment;
  }

  /** A head that holds everything up to {@code read_ts}. */
  public synchronized Head head() {
    if (head.upper() < readTs || !head.exists()) {
      head = handle.log().loadIfExists();
    }
    return head;
  }

  /** Whether nobody can have used its id before. */
  public boolean hasFreshId() {
    return options.id() == null;
  }

  /** Load a table as of {@code read_ts}, the same one every time. */
  public synchronized DataTables.Loaded load(TableIdentifier table) {
    DataTables.Loaded known = loaded.get(table);
    if (known == null) {
      try {
        Optional<DataTables.Loaded> plain =
            explicit ? Optional.empty() : handle.tables().loadPlain(table, head());
        known = plain.orElseGet(() -> handle.tables().loadInTransaction(table, head(), readTs));
      } catch (NoSuchTableException e) {
        reads.absent(table);
        throw e;
      }
      loaded.put(table, known);
      if (!known.registered()) {
        reads.unprotected(table.toString());
      }
    }
    return known;
  }

  /** The table as this transaction sees it, with its own changes. */
  public synchronized StagedTable stagedTable(TableIdentifier table) {
    StagedTable changes = staged.get(table);
    if (changes == null) {
      DataTables.Loaded known = load(table);
      if (known.view() == null) {
        handle.checks().checkWritable(known); // refused: it was loaded while it was under care
      }
      StagedTable made = new StagedTable(table, known.real(), known.view().metadata(), false);
      changes = staged.computeIfAbsent(table, () -> made);
    }
    if (StagedTables.isDropped(changes)) {
      throw new NoSuchTableException("Table does not exist: %s", table);
    }
    return changes;
  }

  /** A dropped table, to be created again on its physical one. */
  synchronized StagedTable stagedOverDropped(TableIdentifier table, DataTables.Loaded dropped) {
    loaded.putIfAbsent(table, dropped);
    reads.absent(table);
    return staged.computeIfAbsent(
        table, () -> new StagedTable(table, dropped.real(), dropped.view().metadata(), false));
  }

  /** Whether the transaction itself created the table. */
  public synchronized boolean creates(TableIdentifier table) {
    return staged.creates(table);
  }

  public synchronized boolean drops(TableIdentifier table) {
    return staged.drops(table);
  }

  /** Tables that it has dropped. */
  synchronized List<StagedTable> dropped() {
    return staged.dropped();
  }

  /** Tables that it has created and that nobody else sees. */
  synchronized List<TableIdentifier> created() {
    return staged.created();
  }

  /** Keep a new table in memory; the catalog's atomic create comes with apply. */
  synchronized void stageCreate(TableIdentifier table, TableOperations real, TableMetadata first) {
    checkWritable();
    staged.create(table, real, first);
    reads.absent(table);
  }

  /** Forget a table that the transaction itself created. */
  synchronized void unstageCreate(TableIdentifier table) {
    checkWritable();
    staged.unstage(table);
  }

  /** Keep a change of a table in memory. */
  synchronized void stage(StagedTable table, TableMetadata base, TableMetadata updated) {
    checkWritable();
    table.stage(base, updated);
    writes.note(table.written(AddedSnapshots.of(updated.changes())));
  }

  /** Keep an append to a table in memory. */
  synchronized void stageAppend(StagedTable table, TableMetadata base, TableMetadata updated) {
    checkWritable();
    table.stageAppend(base, updated);
    writes.note(table.written(AddedSnapshots.of(updated.changes())));
  }

  /**
   * An operation of an implicit transaction has committed. A MERGE WITH SCHEMA EVOLUTION has two,
   * and the second stands on the first: from here on everything is read as of this entry. What was
   * read before it still is what was read, since a level that validates reads has validated them.
   */
  synchronized void statementCommitted(Committed entry, StagedTable table) {
    this.committed = entry;
    writes.note(table.written(table.snapshots()));
    readTs = entry.commitTs();
    loaded.clear();
  }

  /** A statement has written a table that nobody registered. */
  void committedElsewhere(List<WrittenSnapshot> snapshots) {
    writes.note(snapshots);
  }

  /**
   * Refuse a write where there can be none.
   *
   * @throws TxnException 25006 in a read-only transaction; 25P02 in an aborted one
   */
  public void checkWritable() {
    checkActive();
    checkUnattempted();
    if (options.readOnly()) {
      throw TxnException.invalidUsage(
          "25006", "a READ ONLY transaction does not write: begin one with READ WRITE");
    }
  }

  private void checkActive() {
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
