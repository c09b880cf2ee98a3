package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * What one transaction has loaded, read and staged, table by table.
 *
 * <p>Threads may stage at once: one after the other does. Its transaction holds the same lock when
 * it ends, so that nothing is staged into one that is over.
 */
public final class WriteSet {
  private final DataTables tables;
  private final CommitLog log;
  private final WriteChecks checks;
  private final boolean explicit;
  private final Runnable gate;
  private final ReadSet reads = new ReadSet();
  private final Writes writes = new Writes();
  private final StagedTables staged = new StagedTables(writes);
  private final Map<TableIdentifier, Loaded> loaded = new LinkedHashMap<>();

  /** The first name of each table that was loaded, by its uuid and by what letters fold to. */
  private final Map<List<String>, TableIdentifier> firstNames = new HashMap<>();

  /** By each other name of a table, in letters that its catalog folds, the first one. */
  private final Map<TableIdentifier, TableIdentifier> names = new ConcurrentHashMap<>();

  private Head head;
  private volatile long readTs;

  /**
   * Begin with nothing loaded or staged.
   *
   * @param head what was loaded at the transaction's beginning
   * @param readTs what every table is read at, in ms
   * @param explicit whether its user has begun it; one statement alone reads tables as the catalog
   *     has them while transactions are off
   * @param gate refuses a write where the transaction takes none
   */
  public WriteSet(
      DataTables tables,
      CommitLog log,
      WriteChecks checks,
      Head head,
      long readTs,
      boolean explicit,
      Runnable gate) {
    this.tables = tables;
    this.log = log;
    this.checks = checks;
    this.head = head;
    this.readTs = readTs;
    this.explicit = explicit;
    this.gate = gate;
  }

  /** What every table is read at, in ms. */
  public long readTs() {
    return readTs;
  }

  /** A head that holds everything up to {@code read_ts}. */
  public synchronized Head head() {
    if (head.upper() < readTs || !head.exists()) {
      head = log.loadIfExists();
    }
    return head;
  }

  /** Read everything as of a later timestamp from here on. */
  public synchronized void readAt(long newReadTs) {
    readTs = newReadTs;
    loaded.clear();
  }

  /** What was read. */
  public ReadSet reads() {
    return reads;
  }

  /** The writes that run in the transaction. */
  public Writes writes() {
    return writes;
  }

  /** What is staged, with its savepoints; the caller holds the lock. */
  public StagedTables staged() {
    return staged;
  }

  /** Note that a table was read as a whole, if it is under care. */
  public void noteRead(TableIdentifier table) {
    TableIdentifier name = firstName(table);
    Loaded known = loaded.get(name);
    if (known == null || known.registered()) {
      reads.table(name, known == null ? null : TableNames.uuid(known.metadata()));
    }
  }

  /** Note that a table's metadata was looked at, if it is under care. */
  public void noteMetadataRead(TableIdentifier table) {
    TableIdentifier name = firstName(table);
    Loaded known = loaded.get(name);
    if (known == null || known.registered()) {
      reads.metadata(name, known == null ? null : TableNames.uuid(known.metadata()));
    }
  }

  /** Load a table as of {@code read_ts}, the same one every time. */
  public synchronized Loaded load(TableIdentifier called) {
    TableIdentifier table = firstName(called);
    Loaded known = loaded.get(table);
    if (known == null) {
      try {
        Optional<Loaded> plain = explicit ? Optional.empty() : tables.loadPlain(table, head());
        known = plain.orElseGet(() -> tables.loadInTransaction(table, head(), readTs));
      } catch (NoSuchTableException e) {
        reads.absent(table);
        throw e;
      }
      TableIdentifier first = firstName(table, TableNames.uuid(known.metadata()));
      if (!first.equals(table)) {
        names.put(table, first);
        return load(first);
      }
      loaded.put(table, known);
      if (known.registered()) {
        reads.base(known.metadata());
        noteOutstanding(table, known);
      } else {
        reads.unprotected(table.toString());
      }
    }
    return known;
  }

  /**
   * Load a table again, whose newest entry is to be seen: from there on everything is read as of
   * that. Not where other tables were read before, which are not what they were then.
   */
  public synchronized Loaded again(TableIdentifier table) {
    if (loaded.keySet().equals(Set.of(firstName(table)))) {
      head = log.load();
      readAt(head.upper());
    }
    return load(table);
  }

  private TableIdentifier firstName(TableIdentifier table) {
    return names.getOrDefault(table, table);
  }

  /** The name, in these letters or others, by which a table was loaded first. */
  private TableIdentifier firstName(TableIdentifier table, String uuid) {
    return uuid == null
        ? table
        : firstNames.computeIfAbsent(List.of(TableNames.folded(table), uuid), key -> table);
  }

  private void noteOutstanding(TableIdentifier table, Loaded known) {
    TableMetadata real = known.real() == null ? null : known.real().current();
    Set<Long> outstanding =
        OurSnapshots.above(known.metadata(), real == null ? 0 : TableMark.applied(real));
    if (!outstanding.isEmpty()) {
      reads.outstanding(table, TableNames.uuid(known.metadata()), outstanding);
    }
  }

  /** The table as the transaction sees it, with its own changes. */
  public synchronized StagedTable table(TableIdentifier table) {
    StagedTable changes = staged.get(firstName(table));
    if (changes == null) {
      Loaded known = load(table);
      if (!(known instanceof Loaded.Viewed)) {
        checks.writable(known); // refused: it was loaded while it was under care
      }
      changes = staged.computeIfAbsent(firstName(table), () -> StagedTable.of(known));
    }
    if (StagedTables.isDropped(changes)) {
      throw new NoSuchTableException("Table does not exist: %s", table);
    }
    return changes;
  }

  /** A dropped table, to be created again on its physical one. */
  public synchronized StagedTable overDropped(TableIdentifier called, Loaded dropped) {
    TableIdentifier table = firstName(called);
    loaded.putIfAbsent(table, dropped);
    reads.absent(table);
    return staged.computeIfAbsent(table, () -> StagedTable.of(dropped));
  }

  /**
   * The uuids of the tables that were written, then of those that were read.
   *
   * @param all whether all reads are validated, or only what was written by what it holds
   */
  public synchronized List<String> touched(boolean all) {
    Set<String> uuids = new LinkedHashSet<>();
    staged.changed().values().stream()
        .filter(one -> !one.isCreate())
        .forEach(one -> uuids.add(TableNames.uuid(one.base())));
    uuids.addAll(reads.uuids(all));
    return List.copyOf(uuids);
  }

  /** Whether the transaction itself has created a table. */
  public synchronized boolean creates(TableIdentifier table) {
    return staged.creates(firstName(table));
  }

  /** Whether it has dropped a table. */
  public synchronized boolean drops(TableIdentifier table) {
    return staged.drops(firstName(table));
  }

  /** Tables that it has dropped. */
  public synchronized List<StagedTable> dropped() {
    return staged.dropped();
  }

  /** Tables that are there for it: some it has created, maybe again, and nobody else sees them. */
  public synchronized List<StagedTable> standing() {
    return staged.standing();
  }

  /** Keep a new table in memory; the catalog's atomic create comes with apply. */
  public synchronized void stageCreate(
      TableIdentifier called, TableOperations real, TableMetadata first) {
    gate.run();
    TableIdentifier table = firstName(called);
    staged.create(table, real, first);
    reads.absent(table);
  }

  /** Forget a table that the transaction itself has created. */
  public synchronized void unstageCreate(TableIdentifier table) {
    gate.run();
    staged.unstage(firstName(table));
  }

  /** Keep a change of a table in memory. */
  public synchronized void stage(StagedTable table, TableMetadata base, TableMetadata updated) {
    gate.run();
    table.stage(base, updated);
    writes.note(table.written(AddedSnapshots.of(updated.changes())));
  }

  /** Keep an append to a table in memory. */
  public synchronized void stageAppend(
      StagedTable table, TableMetadata base, TableMetadata updated) {
    gate.run();
    table.stageAppend(base, updated);
    writes.note(table.written(AddedSnapshots.of(updated.changes())));
  }

  /**
   * Undo what was staged since a savepoint; the savepoint stays.
   *
   * @throws io.txns.iceberg.TxnException 3B001 for an unknown savepoint
   */
  public synchronized void backTo(String savepoint) {
    staged.backTo(savepoint).forEach(loaded::remove);
  }
}
