package io.txns.iceberg.commit;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.log.Archive;
import io.txns.iceberg.log.ArchiveScan;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Engine;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.Swap;
import io.txns.iceberg.meta.Cleaning;
import io.txns.iceberg.meta.LocalWrites;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.Rows;
import io.txns.iceberg.meta.RowsBusyException;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Overlay;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Queue;
import java.util.Set;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.locks.Lock;
import java.util.concurrent.locks.ReentrantLock;
import java.util.function.Supplier;
import java.util.function.ToIntFunction;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptedOutputFile;
import org.apache.iceberg.encryption.EncryptionKeyMetadata;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.DataWriter;

/**
 * Moves applied entries out of the head into the commit table's rows, in one swap.
 *
 * <p>A lost swap is left to whoever commits next: nothing depends on its being done now. What it
 * has written goes once a newer head tells that it is lost, and stays until then.
 */
public final class Tidier {
  private static final TxnLogger LOG = TxnLogger.of(Tidier.class);

  private static final String UNTIDIED = "the log stays untidied, the next one tries again";

  private static final long LARGE_HEAD_BYTES = 512 * 1024;

  /** Where writers wait for each other one of so many tries: the others would find it done. */
  private static final int EVERY = 8;

  /** Entries beyond what is due, at which all try: those that come in twos may miss each turn. */
  private static final int LATE = 32;

  private final Supplier<TxnConfig> config;
  private final CommitLog log;
  private final DataTables tables;
  private final TxnClock clock;
  private final Supplier<Optional<Rows>> rows;

  /** One thread tidies when it is due: the others would wait for it, and find it done. */
  private final Lock turn = new ReentrantLock();

  /** Entries that the last tidy had to leave: they are no reason for another one. */
  private volatile int keptByLast = 0;

  /** Attempts that may still land, or have landed without an answer. */
  private final Queue<TidyAttempt> unsettled = new ConcurrentLinkedQueue<>();

  /**
   * @param rows the catalog's, where writers wait for each other's swaps
   */
  public Tidier(
      Supplier<TxnConfig> config,
      CommitLog log,
      DataTables tables,
      TxnClock clock,
      Supplier<Optional<Rows>> rows) {
    this.rows = rows;
    this.config = config;
    this.log = log;
    this.tables = tables;
    this.clock = clock;
  }

  /**
   * Tidy when more than {@code txns.tidy-after} new entries stand in the head; gives whether it was
   * due.
   */
  boolean tidyWhenDue() {
    return LogFields.of(Phase.TIDY).during(this::isTidiedWhenDue);
  }

  private boolean isTidiedWhenDue() {
    try {
      int beyond = beyond(log.newest());
      boolean waits = rows.get().isPresent() && beyond < LATE;
      if (beyond <= 0 || waits && beyond % EVERY != 1 || !turn.tryLock()) {
        return false;
      }
      try {
        onNewest(this::tidiedIfStillDue);
      } finally {
        turn.unlock();
      }
    } catch (RuntimeException e) {
      LOG.warn(UNTIDIED, e);
    }
    return true;
  }

  /** How many entries stand in a head beyond those at which none is due. */
  private int beyond(Head head) {
    int tidyAfter = config.get().tidyAfter();
    int mayStand = isLarge(head) ? tidyAfter / 2 : tidyAfter;
    int standing = head.state().entries().size();
    if (standing < keptByLast) { // another one has moved some of them
      keptByLast = standing;
    }
    return standing - keptByLast - mayStand;
  }

  /** Whether each swap writes much again; such heads are tidied twice as early, and none stay. */
  private static boolean isLarge(Head head) {
    return head.recordBytes() > LARGE_HEAD_BYTES;
  }

  /**
   * Archive the older half, if nobody else has; gives how many entries left the head.
   *
   * <p>What has been committed since its BEGIN a short transaction finds in the head then: it would
   * read the archive for that, under the lock that others wait for.
   */
  private int tidiedIfStillDue(Head head) {
    int stays = isLarge(head) ? 0 : config.get().tidyAfter() / 2;
    return beyond(head) > 0 ? tidy(head, head.state().entries().size() - stays) : 0;
  }

  /** Work on the newest head; nobody replaces it meanwhile where writers wait for each other. */
  private int onNewest(ToIntFunction<Head> work) {
    Optional<Rows> movable = rows.get();
    if (movable.isEmpty()) {
      return work.applyAsInt(log.load());
    }
    if (log.newest().exists()) {
      movable.get().known(log.newest().metadata());
    }
    try (LockedRows locked = movable.get().locked(log.identifier(), List.of())) {
      return work.applyAsInt(log.load(locked));
    } catch (RowsBusyException e) {
      LOG.warn(UNTIDIED, e);
      return 0;
    }
  }

  /**
   * Archive every entry of the newest head that is applied everywhere.
   *
   * @return how many entries left the head: none where the swap is lost, or the lock before it
   */
  public int tidy() {
    return LogFields.of(Phase.TIDY)
        .during(() -> onNewest(head -> tidy(head, head.state().entries().size())));
  }

  /** Archive what is applied of the first entries of a head; gives how many left it. */
  private int tidy(Head head, int older) {
    settle(head);
    List<Entry> done = applied(head, older);
    keptByLast = older - done.size();
    if (done.isEmpty()) {
      return 0;
    }
    TidyAttempt attempt = new TidyAttempt(head);
    Swap swap =
        log.replace(
            head,
            (ops, base) ->
                attempt.written(() -> next(ops, base, head.state(), done, attempt, head::atWork)));
    if (swap.outcome() == Swap.Outcome.WON) {
      attempt.superseded().forEach(log::supersede);
      return done.size();
    }
    LOG.info(LogFields.NONE, "the swap of a tidy was not won: {}", swap.outcome());
    LOG.debug("why", swap.cause());
    if (swap.outcome() == Swap.Outcome.NOT_SENT) {
      attempt.delete();
      return 0;
    }
    unsettled.add(attempt);
    try {
      return settle(log.load()).contains(attempt) ? done.size() : 0;
    } catch (RuntimeException e) {
      LOG.debug("the log cannot be asked what became of a tidy, the next one asks again", e);
      return 0;
    }
  }

  /** Learn from a head what became of earlier attempts; give those that have landed. */
  private List<TidyAttempt> settle(Head head) {
    List<TidyAttempt> landed = new ArrayList<>();
    List<TidyAttempt> open = new ArrayList<>();
    TidyAttempt attempt;
    while ((attempt = unsettled.poll()) != null) { // each is one thread's
      if (attempt.hasLanded(head)) {
        landed.add(attempt);
        attempt.superseded().forEach(log::supersede);
      } else if (attempt.isLost(head)) {
        attempt.delete();
      } else if (!head.isPast(attempt.head())) {
        open.add(attempt); // it may still land
      }
      // Else so much has been tidied since that nobody can tell, and its files stay.
    }
    unsettled.addAll(open);
    return landed;
  }

  /** Entries that every table of theirs shows; an open {@code off} and the settings stay. */
  private List<Entry> applied(Head head, int older) {
    AppliedTo applied = new AppliedTo(tables, head.state());
    List<Entry> done = new ArrayList<>();
    Map<String, TableIdentifier> known = new HashMap<>();
    Entry settings = head.state().settingsEntry().orElse(null);
    for (Entry entry : head.state().entries().subList(0, older)) {
      boolean lasts = entry == settings || head.state().off() && entry.kind() == EntryKind.OFF;
      if (applied.everywhere(entry) && !lasts && !isNeeded(entry, known)) {
        done.add(entry);
      } else {
        entry.changes().forEach(change -> known.put(change.uuid(), change.table()));
      }
    }
    return done;
  }

  /**
   * Whether older entries that stay need one: a forget of a table of theirs, or its new name.
   *
   * @param known by which names older entries that stay know their tables, by uuid
   */
  private static boolean isNeeded(Entry entry, Map<String, TableIdentifier> known) {
    return entry.changes().stream()
        .filter(change -> known.containsKey(change.uuid()))
        .anyMatch(
            change ->
                entry.kind() == EntryKind.FORGET
                    || !known.get(change.uuid()).equals(change.table()));
  }

  private TableMetadata next(
      TableOperations real,
      TableMetadata base,
      LogState state,
      List<Entry> done,
      TidyAttempt attempt,
      Runnable atWork) {
    StagedTable staged = new StagedTable(log.identifier(), real, inMemory(base), false);
    attempt.staged(staged);
    Table table = new BaseTable(staged.operations(), log.identifier().toString());
    List<DataFile> small = ArchiveScan.readable(() -> SmallFiles.toMerge(table));
    List<Record> rows = ArchiveScan.readable(() -> SmallFiles.rowsOf(table, small));
    atWork.run();
    done.forEach(
        entry -> Archive.rowsOf(entry, true).forEach(row -> rows.add(Archive.record(row))));
    OverwriteFiles overwrite = table.newOverwrite().addFile(write(table, rows, attempt));
    atWork.run();
    small.forEach(overwrite::deleteFile);
    long newest = done.get(done.size() - 1).commitTs();
    EntryParser.toSummary(record(state, Math.max(state.tidiedUpto(), newest)))
        .forEach(overwrite::set);
    overwrite.commit();
    Set<Long> removed = done.stream().map(state::snapshotId).collect(Collectors.toSet());
    base.snapshots().stream()
        .filter(Tidier::isTidy)
        .forEach(older -> removed.add(older.snapshotId()));
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    staged.changes().forEach(change -> timed(base, change).applyTo(builder));
    TableMetadata next = builder.removeSnapshots(removed).build();
    atWork.run();
    DroppedFiles.payloads(state, done, base.location()).forEach(attempt.superseded()::add);
    Cleaning.of(
        "what the log has named until a tidy",
        () -> attempt.superseded().addAll(DroppedFiles.of(base, next, state.upper(), real.io())));
    return next;
  }

  /** A record's time is one more than the newest, not the clock's, which may be late. */
  private static MetadataUpdate timed(TableMetadata base, MetadataUpdate change) {
    return change instanceof MetadataUpdate.AddSnapshot add
        ? new MetadataUpdate.AddSnapshot(
            SnapshotEdit.of(add.snapshot()).timestampMs(Timestamps.newestMs(base) + 1).build())
        : change;
  }

  private DataFile write(Table table, List<Record> rows, TidyAttempt attempt) {
    String name = "txns-archive-" + clock.newTxnId() + ".parquet";
    String location = table.locationProvider().newDataLocation(name);
    attempt.dataFile(location);
    EncryptedOutputFile file =
        EncryptedFiles.encryptedOutput(
            LocalWrites.through(table.io()).newOutputFile(location), EncryptionKeyMetadata.EMPTY);
    try (DataWriter<Record> writer =
        FormatModelRegistry.<Record, Schema>dataWriteBuilder(FileFormat.PARQUET, Record.class, file)
            .schema(table.schema())
            .spec(PartitionSpec.unpartitioned())
            .build()) {
      rows.forEach(writer::write);
      writer.close();
      return writer.toDataFile();
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write the archive", e);
    }
  }

  private Entry record(LogState state, long tidiedUpto) {
    return new Entry(
        EntryKind.TIDY,
        0,
        0,
        state.upper(),
        tidiedUpto,
        0,
        clock.newTxnId(),
        Isolation.SNAPSHOT,
        Engine.name(),
        "",
        List.of(),
        Entry.Payload.NONE,
        null,
        state.reserved());
  }

  private static TableMetadata inMemory(TableMetadata base) {
    return Overlay.inMemory(base, base.metadataFileLocation());
  }

  private static boolean isTidy(Snapshot snapshot) {
    return snapshot.summary() != null
        && EntryKind.TIDY.stored().equals(snapshot.summary().get(EntryParser.KIND));
  }
}
