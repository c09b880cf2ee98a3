package io.txns.iceberg.admin;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Limits;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * What {@code main} of a table has gone through, by which an entry passes a table over that its log
 * lacked, and went on without (docs/spec.md 9.6): to carry it out would write over what the table
 * shows; or it counts as applied, and was not.
 *
 * @param uuid the table's
 * @param oldestTs the {@code commit_ts} in ms of the oldest entry that is left on it, or of the
 *     newest registration
 * @param appliedTs {@code txns.applied} in ms
 * @param snapshotIds all that is left on it, since then
 * @param late what of that is of the last year of all, but for a registration's
 * @param below what of that lies below the newest entry
 * @param shown which entries it shows, but for those of the last year of all
 * @param givenUp what nothing is left of
 */
record Line(
    String uuid,
    long oldestTs,
    long appliedTs,
    Set<Long> snapshotIds,
    Set<Long> late,
    Set<Long> below,
    Set<Shown> shown,
    List<Gap> givenUp) {

  /** What a table shows of an entry: its {@code commit_ts} in ms, and its transaction id. */
  record Shown(long ts, String txnId) {}

  /** Above which {@code commit_ts} in ms and below which nothing is left of a table. */
  record Gap(long above, long below) {
    boolean has(long ts) {
      return above < ts && ts < below;
    }
  }

  static Line of(TableMetadata metadata, TableMark mark) {
    List<Snapshot> line = new ArrayList<>();
    List<Snapshot> ours = new ArrayList<>();
    Snapshot newest = null;
    History.Walk walk = History.walk(metadata);
    Snapshot at = LoggedState.of(metadata, mark).snapshot();
    boolean marks = false;
    // Below a mark another log may have cared for the table.
    for (; at != null && !marks; at = walk.parent(at)) {
      line.add(at);
      if (OurSnapshots.isOurs(at)) {
        marks = OurSnapshots.marks(metadata, at);
        newest = ours.isEmpty() && !marks ? at : newest;
        ours.add(at);
      }
    }
    int above = newest == null ? line.size() : line.indexOf(newest) + 1;
    return new Line(
        TableNames.uuid(metadata),
        ours.stream()
            .map(OurSnapshots::commitTs)
            .filter(ts -> !Limits.isLate(ts))
            .reduce(mark.applied(), (newer, older) -> older),
        mark.applied(),
        ids(line),
        ids(
            ours.stream()
                .filter(one -> !OurSnapshots.marks(metadata, one))
                .filter(one -> Limits.isLate(OurSnapshots.commitTs(one)))
                .toList()),
        ids(line.subList(above, line.size())),
        ours.stream()
            .filter(one -> !OurSnapshots.marks(metadata, one) && !OurSnapshots.isPassing(one))
            .map(one -> new Shown(OurSnapshots.commitTs(one), OurSnapshots.txnId(one)))
            .filter(one -> !Limits.isLate(one.ts()))
            .collect(Collectors.toSet()),
        gaps(ours));
  }

  private static Set<Long> ids(List<Snapshot> snapshots) {
    return snapshots.stream()
        .map(Snapshot::snapshotId)
        .collect(Collectors.toCollection(HashSet::new));
  }

  private static List<Gap> gaps(List<Snapshot> ours) {
    List<Gap> gaps = new ArrayList<>();
    for (Snapshot at : ours) {
      TableMark.lostAbove(at).ifPresent(ts -> gaps.add(new Gap(ts, OurSnapshots.commitTs(at))));
    }
    return gaps;
  }

  /**
   * The entries that it shows at earlier {@code commit_ts}: there the log had others, and a
   * recovery has moved them, or the log has them later itself. Of one whose time was taken back
   * those that are late there.
   */
  List<Entry> moved(List<Entry> entries) {
    Set<Long> ids = isLate() ? late : snapshotIds;
    return entries.stream()
        .filter(entry -> entry.kind().isApplied() && (isLate() || entry.commitTs() > appliedTs))
        .filter(
            entry ->
                entry.changes().stream()
                    .filter(change -> change.uuid().equals(uuid))
                    .anyMatch(
                        change ->
                            ids.contains(change.toSnapshotId())
                                || shownElsewhere(entry, entries).isPresent()))
        .toList();
  }

  /** Whether it says that something of the last year of all was applied to it. */
  boolean isLate() {
    return Limits.isLate(appliedTs);
  }

  /**
   * Above which {@code commit_ts} in ms there may be entries of it that concern a recovery.
   *
   * @param idRetentionMs how far before all that is left on it the log may have the same id
   */
  long after(long idRetentionMs) {
    return Limits.isLate(oldestTs) ? 0 : Math.max(0, oldestTs - idRetentionMs);
  }

  /** The least {@code commit_ts} in ms of the entries that pass it over; empty for none. */
  OptionalLong passedOverTs(List<Entry> entries) {
    return entries.stream()
        .filter(
            entry ->
                entry.changes().stream().anyMatch(change -> passesOver(entry, change, entries)))
        .mapToLong(Entry::commitTs)
        .min();
  }

  /**
   * Whether it shows an entry at a later {@code commit_ts} than the log, of which that one stands.
   */
  boolean showsLater(List<Entry> entries) {
    return entries.stream()
        .anyMatch(entry -> shownElsewhere(entry, entries).orElse(0) > entry.commitTs());
  }

  /**
   * At which {@code commit_ts} in ms it shows an entry, where the log does not have it: of another
   * attempt. What the log has at both is of two transactions, long after each other.
   */
  private OptionalLong shownElsewhere(Entry entry, List<Entry> entries) {
    return shown.stream()
        .filter(one -> one.txnId().equals(entry.txnId()))
        .filter(
            one ->
                entries.stream()
                    .noneMatch(
                        other -> other.commitTs() == one.ts() && other.txnId().equals(one.txnId())))
        .mapToLong(Shown::ts)
        .min();
  }

  /**
   * Whether a change of an entry is not on it, and can be carried out no more; or is on it later
   * than the log has it, which it lacks until then.
   */
  private boolean passesOver(Entry entry, Change change, List<Entry> entries) {
    long ts = entry.commitTs();
    if (!change.uuid().equals(uuid)
        || !entry.kind().isApplied() // an archived one has no payload
        || givenUp.stream().anyMatch(gap -> gap.has(ts))) {
      return false;
    }
    OptionalLong elsewhere = shownElsewhere(entry, entries);
    if (elsewhere.isPresent() || snapshotIds.contains(change.toSnapshotId())) {
      return elsewhere.orElse(0) > ts;
    }
    if (ts <= oldestTs) {
      return false;
    }
    boolean ends = entry.kind() == EntryKind.REPAIR || entry.kind() == EntryKind.FORGET;
    return ts <= appliedTs || !ends && below.contains(change.fromSnapshotId());
  }
}
