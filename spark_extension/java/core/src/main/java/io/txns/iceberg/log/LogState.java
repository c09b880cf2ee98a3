package io.txns.iceberg.log;

import io.txns.iceberg.LogSettings;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What a head of the commit table says: plain data with rules, no I/O.
 *
 * <p>Entries above {@code tidiedUpto} are complete. Those at or below it are the ones that have not
 * been applied yet; the others of them are in the archive.
 */
public final class LogState {
  private final List<Entry> entries;
  private final Map<String, List<Entry>> byTxnId;
  private final Map<String, TableIdentifier> names;
  private final Map<String, Long> bornTs;
  private final Map<Long, Long> snapshotIds;
  private final long upper;
  private final long tidiedUpto;
  private final List<Reservation> reserved;

  private LogState(
      List<Entry> entries,
      Map<Long, Long> snapshotIds,
      long upper,
      long tidiedUpto,
      List<Reservation> reserved) {
    this.entries = entries;
    this.snapshotIds = snapshotIds;
    this.upper = upper;
    this.tidiedUpto = tidiedUpto;
    this.reserved = reserved;
    this.byTxnId = new HashMap<>();
    this.names = new HashMap<>();
    this.bornTs = new HashMap<>();
    for (Entry entry : entries) {
      byTxnId.computeIfAbsent(entry.txnId(), id -> new ArrayList<>()).add(entry);
      for (Change change : entry.changes()) {
        names.put(change.uuid(), change.table());
        if (change.bornApplied()) {
          bornTs.put(change.uuid(), entry.commitTs());
        }
      }
    }
  }

  /** The state of a log that has not been created: nothing has committed. */
  static LogState empty() {
    return new LogState(List.of(), Map.of(), 0, 0, List.of());
  }

  /**
   * The state that a head stands for.
   *
   * @param records the records of all snapshots of the commit table, in any order, by the id of
   *     their snapshot
   * @param newest the record that {@code main} stands on; it says upper and tidied-upto
   * @throws TxnException CorruptLog when an invariant does not hold
   */
  public static LogState of(Map<Long, Entry> records, Entry newest) {
    List<Entry> entries = new ArrayList<>();
    Map<Long, Long> snapshotIds = new HashMap<>();
    records.forEach(
        (snapshotId, entry) -> {
          if (entry.kind() == EntryKind.TIDY) {
            return;
          }
          entries.add(entry);
          snapshotIds.put(entry.commitTs(), snapshotId);
        });
    entries.sort(Comparator.comparingLong(Entry::commitTs));
    LogState state =
        new LogState(
            List.copyOf(entries),
            snapshotIds,
            newest.upper(),
            newest.tidiedUpto(),
            newest.reserved());
    state.validate();
    return state;
  }

  /**
   * Check every invariant that a head alone can show (docs/spec.md "Invariants").
   *
   * @throws TxnException CorruptLog naming the invariant
   */
  public void validate() {
    long previous = tidiedUpto;
    long last = 0;
    Map<String, Entry> under = new HashMap<>();
    Set<Object> targets = new HashSet<>();
    for (Entry entry : entries) {
      validateId(entry, under.put(entry.txnId(), entry));
      check(entry.commitTs() > last, "I1", "commit-ts does not increase: " + entry.commitTs());
      last = entry.commitTs();
      if (entry.commitTs() > tidiedUpto) {
        check(
            entry.prevTs() == previous,
            "I1",
            String.format(
                "an entry is missing before commit-ts %d: prev-ts is %d, found %d",
                entry.commitTs(), entry.prevTs(), previous));
        previous = entry.commitTs();
      }
      for (Change change : entry.moved()) {
        validate(entry, change, targets);
      }
    }
    check(
        upper == previous,
        "I6",
        String.format("upper is %d, but the newest entry is %d", upper, previous));
  }

  /**
   * I8 of one entry.
   *
   * @param before the one under its id before it; null for none
   */
  private static void validateId(Entry entry, Entry before) {
    if (before == null) {
      return;
    }
    check(before.isAbort(), "I8", "a transaction id after its entry: " + entry.txnId());
    check(
        entry.isAbort() || entry.readTs() >= before.commitTs(),
        "I8",
        "a try that was refused has committed: " + entry.txnId());
  }

  private static void validate(Entry entry, Change change, Set<Object> targets) {
    check(
        change.toSnapshotId() != null,
        "I2",
        "a change does not move main: " + change.table() + " at " + entry.commitTs());
    check(
        !change.toSnapshotId().equals(change.fromSnapshotId()),
        "I3",
        "a change stands on itself: " + change.table() + " at " + entry.commitTs());
    check(
        targets.add(change.toSnapshotId()),
        "I3",
        "two changes have one to-snapshot: " + change.table() + " at " + entry.commitTs());
    // A repair of a table that was set back stands on what is there, as others have before it.
    check(
        targets.add(change.uuid() + " from " + change.fromSnapshotId())
            || entry.kind() == EntryKind.REPAIR,
        "I3",
        "two changes stand on one snapshot: " + change.table() + " at " + entry.commitTs());
  }

  private static void check(boolean holds, String invariant, String message) {
    if (!holds) {
      throw TxnException.corruptLog(
          String.format(
              "invariant %s does not hold: %s; if one record is to blame, `txns recover --void` with"
                  + " its commit_ts goes on without it",
              invariant, message));
    }
  }

  /** This state with one more entry, the newest. */
  LogState with(Entry entry) {
    List<Entry> more = new ArrayList<>(entries);
    more.add(entry);
    return new LogState(
        List.copyOf(more), snapshotIds, entry.upper(), tidiedUpto, entry.reserved());
  }

  /** Who has reserved tables, by the newest record; whoever writes the next one repeats it. */
  public List<Reservation> reserved() {
    return reserved;
  }

  /** What the next entry says of reservations: one of its own id has been used, if it commits. */
  public List<Reservation> carriedBy(Entry entry) {
    return reserved.stream()
        .filter(each -> entry.isAbort() || !each.txnId().equals(entry.txnId()))
        .toList();
  }

  /** The greatest {@code commit_ts}, in ms. */
  public long upper() {
    return upper;
  }

  /**
   * The greatest timestamp, in ms, at and below which all that names a table is in the archive. The
   * newest settings, which name none, stay in the head for good.
   */
  public long archivedUpto() {
    return entries.stream()
        .filter(entry -> !entry.changes().isEmpty())
        .mapToLong(entry -> Math.min(tidiedUpto, entry.commitTs() - 1))
        .findFirst()
        .orElse(tidiedUpto);
  }

  /** The greatest {@code commit_ts} that has left the head, in ms; 0 if none has. */
  public long tidiedUpto() {
    return tidiedUpto;
  }

  /** Whether an archived {@code commit_ts} had left this head: a newer one may have archived it. */
  boolean hasLeft(long commitTs) {
    return commitTs <= tidiedUpto && !snapshotIds.containsKey(commitTs);
  }

  /** All entries that stand in the head, ascending by {@code commit_ts}. */
  public List<Entry> entries() {
    return entries;
  }

  /** The entries with {@code commit_ts} above {@code ts}, ascending. */
  public List<Entry> after(long ts) {
    return entries.stream().filter(entry -> entry.commitTs() > ts).toList();
  }

  /** The entries under an id that stand in the head, ascending; see {@link Entry#committed}. */
  public List<Entry> under(String txnId) {
    return byTxnId.getOrDefault(txnId, List.of());
  }

  /** Whether an entry stands in this head, and has not left it. */
  public boolean has(Entry entry) {
    return snapshotIds.containsKey(entry.commitTs());
  }

  /** The snapshot of the commit table that an entry of this head is. */
  public long snapshotId(Entry entry) {
    return snapshotIds.get(entry.commitTs());
  }

  /**
   * The changes of one data table that have to be applied, ascending; not those that a repair has
   * ended ({@link #withoutEnded}).
   *
   * @param uuid the table's uuid
   * @param after exclusive bound, in ms: the table's {@code txns.applied}
   * @param upto inclusive bound, in ms
   */
  public List<LoggedChange> changes(String uuid, long after, long upto) {
    List<LoggedChange> changes = new ArrayList<>();
    for (Entry entry : entries) {
      if (!entry.applies() || entry.commitTs() <= after || entry.commitTs() > upto) {
        continue;
      }
      for (Change change : entry.carried()) {
        if (change.uuid().equals(uuid)) {
          changes.add(new LoggedChange(entry, change));
        }
      }
    }
    return withoutEnded(changes);
  }

  /** The newest {@code commit_ts}, in ms, of what was born applied to a table; 0 for none. */
  public long bornTs(String uuid) {
    return bornTs.getOrDefault(uuid, 0L);
  }

  /**
   * Changes without those that a repair has ended, whose table was set back below them. Such a
   * repair stands on what the table has, not on the change before it.
   */
  public static List<LoggedChange> withoutEnded(List<LoggedChange> run) {
    Map<String, LoggedChange> last = new HashMap<>();
    Map<String, Long> ended = new HashMap<>();
    for (LoggedChange logged : run) {
      Change change = logged.change();
      LoggedChange before = last.put(change.uuid(), logged);
      if (before != null
          && logged.entry().kind() == EntryKind.REPAIR
          && !before.change().toSnapshotId().equals(change.fromSnapshotId())) {
        ended.put(change.uuid(), logged.commitTs());
      }
    }
    return run.stream()
        .filter(logged -> logged.commitTs() >= ended.getOrDefault(logged.change().uuid(), 0L))
        .toList();
  }

  /**
   * The name that a change's table was given last: by it that table is looked for. A rename that
   * lands late leaves entries behind which name the old one.
   */
  public TableIdentifier nameOf(Change change) {
    return names.getOrDefault(change.uuid(), change.table());
  }

  /** The tables that somebody has reserved, by name; by uuid those that the head does not name. */
  public List<String> namesOf(Reservation reservation) {
    return reservation.uuids().stream()
        .map(uuid -> names.containsKey(uuid) ? names.get(uuid).toString() : uuid)
        .toList();
  }

  /**
   * The newest creation of a table under a name, with {@code commit_ts} at or below a bound; empty
   * where the table has left care since, or is known by another name.
   */
  public Optional<LoggedChange> creation(TableIdentifier table, long upto) {
    LoggedChange found = null;
    for (Entry entry : entries) {
      for (Change change : entry.moved()) {
        if (entry.commitTs() <= upto
            && change.operation() == Operation.CREATE
            && change.table().equals(table)) {
          found = new LoggedChange(entry, change);
        }
      }
    }
    return Optional.ofNullable(found)
        .filter(one -> forgottenTs(one.change().uuid()) < one.commitTs())
        .filter(one -> TableNames.folded(nameOf(one.change())).equals(TableNames.folded(table)));
  }

  /**
   * The names of tables that an entry creates, other than one in letters alone: a catalog may take
   * one for the other, once it has either. It may have them already.
   */
  public List<TableIdentifier> createdAlike(TableIdentifier table) {
    String letters = TableNames.folded(table);
    return entries.stream()
        .flatMap(entry -> entry.carried().stream())
        .filter(change -> change.operation() == Operation.CREATE)
        .filter(change -> !change.table().equals(table))
        .filter(change -> TableNames.folded(change.table()).equals(letters))
        .map(this::nameOf)
        .toList();
  }

  /** The oldest change that moves a table which an entry of this head creates. */
  public LoggedChange first(String uuid) {
    return entries.stream()
        .flatMap(entry -> entry.moved().stream().map(change -> new LoggedChange(entry, change)))
        .filter(logged -> logged.change().uuid().equals(uuid))
        .findFirst()
        .orElseThrow();
  }

  /**
   * When a table was taken from care, as {@code commit_ts}; 0 where it was not. Everything before
   * it was applied then: what the catalog says of the table since is the truth.
   */
  public long forgottenTs(String uuid) {
    return entries.stream()
        .filter(entry -> entry.kind() == EntryKind.FORGET)
        .filter(entry -> entry.changes().stream().anyMatch(one -> one.uuid().equals(uuid)))
        .mapToLong(Entry::commitTs)
        .reduce(0, Math::max);
  }

  /**
   * The {@code commit_ts} of what names a table again after the first forget of a run; null where
   * nothing does. It has been registered since, and shows the forget: who finds it in a run ({@link
   * #changes}) has an older state of the table.
   */
  public Long afterForgetTs(List<LoggedChange> run) {
    Optional<LoggedChange> forget =
        run.stream().filter(change -> change.entry().kind() == EntryKind.FORGET).findFirst();
    if (forget.isEmpty()) {
      return null;
    }
    String uuid = forget.get().change().uuid();
    return entries.stream()
        .filter(entry -> entry.commitTs() > forget.get().commitTs())
        .filter(entry -> entry.changes().stream().anyMatch(one -> one.uuid().equals(uuid)))
        .map(Entry::commitTs)
        .findFirst()
        .orElse(null);
  }

  /** The entry that says what the log is set to; empty where all is as by default. */
  public Optional<Entry> settingsEntry() {
    return entries.stream()
        .filter(entry -> entry.kind() == EntryKind.SETTINGS)
        .reduce((older, newer) -> newer);
  }

  /** What the log is set to. */
  public LogSettings settings() {
    return settingsEntry().map(Entry::settings).orElse(LogSettings.DEFAULTS);
  }

  /**
   * The {@code commit_ts} of the oldest entry that tables may not show yet, as far as the head
   * tells: those below it are applied.
   */
  public OptionalLong oldestMaybeUnapplied() {
    return entries.stream()
        .filter(
            entry ->
                entry.carried().stream()
                    .anyMatch(one -> forgottenTs(one.uuid()) <= entry.commitTs()))
        .mapToLong(Entry::commitTs)
        .findFirst();
  }

  /** Whether the protocol's writers are turned away ({@code off}). */
  public boolean off() {
    boolean off = false;
    for (Entry entry : entries) {
      if (entry.kind() == EntryKind.OFF) {
        off = true;
      } else if (entry.kind() == EntryKind.ON) {
        off = false;
      }
    }
    return off;
  }
}
