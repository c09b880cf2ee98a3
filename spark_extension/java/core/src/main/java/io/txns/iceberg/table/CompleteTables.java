package io.txns.iceberg.table;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.LocalPermissions;
import java.util.Comparator;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * Loads data tables until they have what the log has of them, or tells what they lack.
 *
 * <p>A replica of the catalog may lag, and gives a table as it was; somebody may have set one back
 * to older metadata; or one may stand under two names (docs/spec.md 9.1 and 11.2).
 */
record CompleteTables(
    Catalog delegate,
    Timeline timeline,
    TxnClock clock,
    Supplier<Head> newestHead,
    Function<TableIdentifier, Optional<Table>> known) {
  private static final Comparator<TableIdentifier> BY_TEXT =
      Comparator.comparing(TableIdentifier::toString);

  /**
   * A table as the catalog has it.
   *
   * @param lost what it lacks of the log: somebody has set it back
   */
  record Complete(Table table, Optional<Stranger> lost) {}

  /**
   * What one load has given.
   *
   * @param absent why there is no table; null where there is one
   * @param lost the {@code commit_ts} up to which it lacks entries; null for one that has all
   * @param gone whether the one that the log creates under the name was there, and is not
   */
  private record Look(Table table, NoSuchTableException absent, Long lost, boolean gone) {
    boolean isComplete() {
      return lost == null && !gone;
    }
  }

  /**
   * Load a table after {@code head}; one that lacks something of the log is loaded again.
   *
   * <p>A replica may lag. What it lacks after the last load, somebody has set back. Nobody asks a
   * second time, with a head that is newer than the table.
   *
   * @param readTs in ms; a creation above it makes no table
   * @throws NoSuchTableException the catalog does not have it, nor need it
   * @throws TxnException Quarantined: what it lacks stands under another name of the same table; or
   *     the table was created, and somebody has dropped it
   */
  Complete load(TableIdentifier identifier, Head head, long readTs) {
    Look look = look(identifier, head, readTs);
    for (int waitMsMax : CommitLog.LAG_MS) {
      if (look.isComplete()) {
        break;
      }
      clock.backOff(waitMsMax);
      look = look(identifier, head, readTs);
    }
    if (look.gone()) {
      throw isStillCreated(identifier, head, readTs)
          ? TxnException.missing(identifier)
          : new NoSuchTableException("Table does not exist: %s", identifier);
    }
    if (look.absent() != null) {
      throw look.absent();
    }
    if (look.lost() == null) {
      return new Complete(look.table(), Optional.empty());
    }
    TableMetadata metadata = ((BaseTable) look.table()).operations().current();
    refuseSecondName(identifier, metadata, head);
    return new Complete(look.table(), Stranger.ofSetBack(metadata, look.lost()));
  }

  /** Whether the log, as it is now, creates what a head does: that may be older than a purge. */
  private boolean isStillCreated(TableIdentifier identifier, Head head, long readTs) {
    return head.state()
        .creation(identifier, readTs)
        .map(LoggedChange::commitTs)
        .equals(newestHead.get().state().creation(identifier, readTs).map(LoggedChange::commitTs));
  }

  private Look look(TableIdentifier identifier, Head head, long readTs) {
    try {
      Table table = LocalPermissions.load(() -> loaded(identifier));
      boolean gone = !isMarked(table) && isGone(identifier, table.uuid().toString(), head, readTs);
      return new Look(table, null, lostUpto(table, head), gone);
    } catch (NoSuchTableException e) {
      return new Look(null, e, null, isGone(identifier, null, head, readTs));
    }
  }

  private Table loaded(TableIdentifier identifier) {
    return known.apply(identifier).orElseGet(() -> delegate.loadTable(identifier));
  }

  /**
   * Whether a name lacks the table that the head creates under it, which was there: its creation
   * alone makes no table.
   *
   * @param uuid of what stands there; null for nothing
   */
  boolean isGone(TableIdentifier identifier, String uuid, Head head, long readTs) {
    return head.state()
        .creation(identifier, readTs)
        .map(creation -> creation.change().uuid())
        .filter(created -> !created.equals(uuid))
        .filter(created -> wasCreated(created, head))
        .isPresent();
  }

  /**
   * Whether a table whose creation stands in the head has been there: later entries have left it,
   * or were born applied, as the first may be. That is not always the newest creation: a table is
   * created again on what the first one made.
   */
  boolean wasCreated(String uuid, Head head) {
    LoggedChange first = head.state().first(uuid);
    return first.change().bornApplied()
        || newestTs(uuid, first.commitTs(), head, true) > first.commitTs();
  }

  /**
   * The newest {@code commit_ts}, in ms, that a table has to show, of what is never laid over it:
   * it has left the head, or was born applied.
   *
   * @param above a bound, in ms, which is given where there is nothing above it
   * @param marked whether the table has its mark: without one it is its owner's once the forget
   *     that came last has left the head, too
   */
  private long newestTs(String uuid, long above, Head head, boolean marked) {
    long archivedTs = timeline.archive().newestApplied().ts(head, uuid, above, marked);
    return Math.max(archivedTs, head.state().bornTs(uuid));
  }

  private static boolean isMarked(Table table) {
    return !(table instanceof BaseTable base)
        || TableMark.of(base.operations().current()).isPresent();
  }

  /** What a table lacks that the catalog itself has given, not a replica. */
  Optional<Stranger> lost(TableMetadata metadata, Head head) {
    return Stranger.ofSetBack(metadata, lostUpto(metadata, head));
  }

  private Long lostUpto(Table table, Head head) {
    return table instanceof BaseTable base ? lostUpto(base.operations().current(), head) : null;
  }

  /**
   * The {@code commit_ts} up to which a table lacks entries; null for one that has all.
   *
   * <p>They have left the head, which they did when the table showed them, or were born applied; or
   * an outstanding change does not find what it stands on; or the table was forgotten and
   * registered again, and shows neither. Until a repair stands on what is there.
   */
  private Long lostUpto(TableMetadata metadata, Head head) {
    if (!head.exists()) {
      return null;
    }
    long applied = TableMark.applied(metadata);
    List<LoggedChange> run = TableMark.outstanding(metadata, head);
    Long unfit = unfitTs(run, metadata);
    if (unfit == null) {
      unfit = head.state().afterForgetTs(run);
    }
    if (!run.isEmpty() && unfit == null && run.get(0).entry().kind() == EntryKind.REPAIR) {
      return null;
    }
    boolean marked = TableMark.of(metadata).isPresent();
    long newest = newestTs(TableNames.uuid(metadata), applied, head, marked);
    return newest > applied ? (Long) newest : unfit;
  }

  /**
   * The {@code commit_ts} of the newest outstanding change that stands on what a table has not, or
   * null. Nor on the change before it: that was applied then, and strangers compacted. A forget
   * needs nothing of it: everything before was applied, and its owner may have expired it.
   */
  private static Long unfitTs(List<LoggedChange> run, TableMetadata metadata) {
    Long unfitTs = null;
    Long before = null;
    for (LoggedChange logged : run) {
      Long source = logged.change().fromSnapshotId();
      boolean stands =
          source == null
              || source.equals(before)
              || metadata.snapshot(source) != null
              || logged.entry().kind() == EntryKind.FORGET;
      unfitTs = stands ? unfitTs : (Long) logged.commitTs();
      before = logged.change().toSnapshotId();
    }
    return unfitTs;
  }

  /** Refuse a name whose table has what it lacks under the name that the log knows it by. */
  private void refuseSecondName(TableIdentifier identifier, TableMetadata metadata, Head head) {
    String own = identifier.toString();
    for (TableIdentifier name :
        names(TableNames.uuid(metadata), TableMark.applied(metadata), head)) {
      if (!name.toString().equalsIgnoreCase(own) && hasMoreThan(metadata, name)) {
        throw TxnException.secondName(identifier, name);
      }
    }
  }

  private boolean hasMoreThan(TableMetadata metadata, TableIdentifier name) {
    try {
      return delegate.loadTable(name) instanceof BaseTable other
          && TableNames.uuid(other.operations().current()).equals(TableNames.uuid(metadata))
          && TableMark.applied(other.operations().current()) > TableMark.applied(metadata);
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  /** The names by which a table was written above a {@code commit_ts}. */
  private Set<TableIdentifier> names(String uuid, long above, Head head) {
    return timeline.above(head.state(), above).stream()
        .flatMap(entry -> entry.changes().stream())
        .filter(change -> change.uuid().equals(uuid))
        .map(Change::table)
        .collect(Collectors.toCollection(() -> new TreeSet<>(BY_TEXT)));
  }
}
