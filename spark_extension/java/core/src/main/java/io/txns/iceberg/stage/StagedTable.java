package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.DelegatingOperations;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.LocationProvider;

/**
 * One table inside a transaction: what it stands on, and the changes that are kept in memory.
 *
 * <p>Data files, manifests and manifest lists are in storage already; only pointers are here.
 */
public final class StagedTable {
  private static final int LAST_ADDED = -1;

  private final TableIdentifier identifier;
  private final TableOperations real;
  private final TableMetadata base;
  private final boolean create;
  private volatile Point point;

  /**
   * A state to go back to.
   *
   * @param appended whether appends alone have made the changes
   */
  public record Point(TableMetadata current, List<MetadataUpdate> changes, boolean appended) {}

  /**
   * @param real the operations of the table in the delegate; held, because some catalogs close a
   *     table's FileIO when its operations become unreachable
   * @param base the table as of the transaction's {@code read_ts}; for a new table its first
   *     metadata, which is itself a change
   */
  public StagedTable(
      TableIdentifier identifier, TableOperations real, TableMetadata base, boolean create) {
    this.identifier = identifier;
    this.real = real;
    this.base = base;
    this.create = create;
    this.point =
        create
            ? new Point(Overlay.inMemory(base, null), creation(base), false)
            : new Point(base, List.of(), true);
  }

  private StagedTable(StagedTable other) {
    this.identifier = other.identifier;
    this.real = other.real;
    this.base = other.base;
    this.create = other.create;
    this.point = other.point;
  }

  /** It as it is now, for who looks at it without a lock: what is staged later is not in it. */
  StagedTable still() {
    return new StagedTable(this);
  }

  /** Whether what it had staged is staged still, and perhaps more. */
  boolean hasStill(StagedTable earlier) {
    List<MetadataUpdate> now = changes();
    int before = earlier.changes().size();
    return now.size() >= before && now.subList(0, before).equals(earlier.changes());
  }

  /** A table as it was loaded, with nothing staged on it. */
  public static StagedTable of(Loaded loaded) {
    return new StagedTable(loaded.identifier(), loaded.real(), loaded.metadata(), false);
  }

  /**
   * The updates that make a new table; they say what is current, also where Iceberg's defaults
   * would do, so that every implementation replays them alike.
   */
  private static List<MetadataUpdate> creation(TableMetadata first) {
    List<MetadataUpdate> changes = new ArrayList<>();
    changes.add(new MetadataUpdate.AssignUUID(TableNames.uuid(first)));
    changes.add(new MetadataUpdate.UpgradeFormatVersion(first.formatVersion()));
    first.schemas().forEach(schema -> changes.add(new MetadataUpdate.AddSchema(schema)));
    boolean oneSchema = first.schemas().size() == 1;
    changes.add(
        new MetadataUpdate.SetCurrentSchema(oneSchema ? LAST_ADDED : first.currentSchemaId()));
    first.specs().forEach(spec -> changes.add(new MetadataUpdate.AddPartitionSpec(spec)));
    boolean oneSpec = first.specs().size() == 1;
    changes.add(
        new MetadataUpdate.SetDefaultPartitionSpec(oneSpec ? LAST_ADDED : first.defaultSpecId()));
    first.sortOrders().forEach(order -> changes.add(new MetadataUpdate.AddSortOrder(order)));
    boolean oneOrder = first.sortOrders().size() == 1;
    changes.add(
        new MetadataUpdate.SetDefaultSortOrder(oneOrder ? LAST_ADDED : first.defaultSortOrderId()));
    changes.add(new MetadataUpdate.SetLocation(first.location()));
    changes.add(new MetadataUpdate.SetProperties(first.properties()));
    first.changes().stream().filter(StagedTable::isAboutSnapshots).forEach(changes::add);
    return List.copyOf(changes);
  }

  private static boolean isAboutSnapshots(MetadataUpdate change) {
    return change instanceof MetadataUpdate.AddSnapshot
        || change instanceof MetadataUpdate.SetSnapshotRef;
  }

  public TableIdentifier identifier() {
    return identifier;
  }

  public TableOperations real() {
    return real;
  }

  public TableMetadata base() {
    return base;
  }

  public TableMetadata current() {
    return point.current();
  }

  public List<MetadataUpdate> changes() {
    return point.changes();
  }

  /** What it is now: the same object for as long as nothing more is staged on it. */
  public Point point() {
    return point;
  }

  void backTo(Point earlier) {
    this.point = earlier;
  }

  public boolean isCreate() {
    return create;
  }

  public boolean isChanged() {
    return !point.changes().isEmpty();
  }

  /** Keep a change: {@code expected} must be the very object that {@link #current()} gave. */
  public void stage(TableMetadata expected, TableMetadata updated) {
    stage(expected, updated, false);
  }

  /** Keep what an append has made, Iceberg's {@code AppendFiles}. */
  public void stageAppend(TableMetadata expected, TableMetadata updated) {
    stage(expected, updated, true);
  }

  private synchronized void stage(TableMetadata expected, TableMetadata updated, boolean append) {
    if (expected != point.current()) {
      throw new CommitFailedException("stale table metadata in a transaction: %s", identifier);
    }
    List<MetadataUpdate> changes = new ArrayList<>(point.changes());
    changes.addAll(updated.changes());
    this.point =
        new Point(
            Overlay.inMemory(updated, point.current().metadataFileLocation()),
            List.copyOf(changes),
            append && point.appended());
  }

  /** The snapshots that were staged, in order. */
  public List<Snapshot> snapshots() {
    return AddedSnapshots.of(point.changes());
  }

  /** Some of its snapshots, for whoever counts their rows. */
  public List<WrittenSnapshot> written(List<Snapshot> some) {
    return some.stream()
        .map(snapshot -> new WrittenSnapshot(snapshot, current(), real.io()))
        .toList();
  }

  /**
   * Whether all it does is to append rows to {@code main}: then it may be restaged.
   *
   * <p>The operation of a snapshot does not tell: a MERGE that only inserts has {@code append}, and
   * depends on what the table held.
   */
  public boolean isAppendOnly() {
    return isChanged() && point.appended() && isOnMain(snapshots());
  }

  /** Whether all it does is to add rows to {@code main}, be it by what the table held. */
  public boolean isInsertOnly() {
    return isOnMain(snapshots())
        && !rollsBack()
        && point.changes().stream()
            .allMatch(
                change ->
                    change instanceof MetadataUpdate.AddSnapshot add
                            && DataOperations.APPEND.equals(add.snapshot().operation())
                        || change instanceof MetadataUpdate.SetSnapshotRef ref
                            && SnapshotRef.MAIN_BRANCH.equals(ref.name()));
  }

  /**
   * Whether all it does is to add and remove files on {@code main}: then it can be made again as
   * one operation on a newer state ({@link Restager#asOne}). A format above 2 numbers rows, which
   * only appends and single operations leave as they are.
   */
  public boolean changesOnlyFiles() {
    return isChanged()
        && !create
        && !alters()
        && isOnMain(snapshots())
        && (base.formatVersion() < 3 || snapshots().size() == 1);
  }

  /** Whether all it does is to put the same rows into other files: its scans say which it read. */
  public boolean compacts() {
    return changesOnlyFiles()
        && snapshots().stream().allMatch(one -> DataOperations.REPLACE.equals(one.operation()));
  }

  /** Whether it does more to the table than to put other files on {@code main}. */
  public boolean alters() {
    return rollsBack()
        || TableMark.isDropped(current().currentSnapshot())
        || !point.changes().stream()
            .allMatch(
                change ->
                    change instanceof MetadataUpdate.AddSnapshot
                        || change instanceof MetadataUpdate.SetSnapshotRef ref
                            && SnapshotRef.MAIN_BRANCH.equals(ref.name()));
  }

  /** Whether main was put on a snapshot that was there before, if only for a while. */
  boolean rollsBack() {
    Set<Long> own = snapshots().stream().map(Snapshot::snapshotId).collect(Collectors.toSet());
    return point.changes().stream()
        .anyMatch(
            change ->
                change instanceof MetadataUpdate.SetSnapshotRef ref
                    && SnapshotRef.MAIN_BRANCH.equals(ref.name())
                    && !own.contains(ref.snapshotId()));
  }

  /** The first staged snapshot of main's new run; null where main stands on none. */
  Snapshot rootOfMain() {
    Set<Long> added = snapshots().stream().map(Snapshot::snapshotId).collect(Collectors.toSet());
    Snapshot root = null;
    History.Walk walk = History.walk(current());
    Snapshot at = current().currentSnapshot();
    while (at != null && added.contains(at.snapshotId())) {
      root = at;
      at = walk.parent(at);
    }
    return root;
  }

  /** The snapshot of another state whose rows main is to have, or to go on from; null for none. */
  Long restored() {
    Snapshot root = rootOfMain();
    Snapshot main = current().currentSnapshot();
    if (root != null && root.summary().containsKey(TableMark.SNAPSHOT_RESTORED)) {
      return Long.valueOf(root.summary().get(TableMark.SNAPSHOT_RESTORED)); // a copy of it
    }
    Long source = root != null || main == null ? parentId(root) : Long.valueOf(main.snapshotId());
    return create || Objects.equals(source, History.mainId(base)) ? null : source;
  }

  private static Long parentId(Snapshot snapshot) {
    return snapshot == null ? null : snapshot.parentId();
  }

  /** Whether every one of some staged snapshots is on main: a WAP snapshot is not. */
  private boolean isOnMain(List<Snapshot> added) {
    Set<Long> left = added.stream().map(Snapshot::snapshotId).collect(Collectors.toSet());
    History.Walk walk = History.walk(current());
    Snapshot at = current().currentSnapshot();
    while (at != null && left.remove(at.snapshotId())) {
      at = walk.parent(at);
    }
    return left.isEmpty();
  }

  /** Whether main stands on a snapshot that was staged here. */
  boolean hasNewMain() {
    Snapshot main = current().currentSnapshot();
    return main != null
        && snapshots().stream().anyMatch(one -> one.snapshotId() == main.snapshotId());
  }

  /** Whether the schema was changed after main's newest snapshot was staged here. */
  boolean mainHasOtherColumns() {
    Snapshot main = current().currentSnapshot();
    return hasNewMain() && !Objects.equals(main.schemaId(), current().currentSchemaId());
  }

  /** Whether a staged change moves {@code main} (invariant I2 asks every change to). */
  boolean movesMain() {
    return point.changes().stream()
        .anyMatch(
            change ->
                change instanceof MetadataUpdate.SetSnapshotRef ref
                    && SnapshotRef.MAIN_BRANCH.equals(ref.name()));
  }

  /** A table in memory with an empty snapshot on main that has a manifest list of its own. */
  public static StagedTable withEmptySnapshot(
      TableIdentifier identifier, TableOperations real, TableMetadata base) {
    StagedTable staged =
        new StagedTable(
            identifier, real, Overlay.inMemory(base, base.metadataFileLocation()), false);
    new BaseTable(staged.operations(), identifier.toString()).newFastAppend().commit();
    return staged;
  }

  /** Operations over this table that stage what is committed through them. */
  public TableOperations operations() {
    return new StagingOperations();
  }

  /** Table operations whose commits stay in memory. */
  private final class StagingOperations extends DelegatingOperations {
    @Override
    public TableOperations real() {
      return real;
    }

    @Override
    public TableMetadata current() {
      return StagedTable.this.current();
    }

    @Override
    public TableMetadata refresh() {
      return current();
    }

    @Override
    public void commit(TableMetadata from, TableMetadata to) {
      stage(from, to);
    }

    @Override
    public String metadataFileLocation(String fileName) {
      return real.temp(current()).metadataFileLocation(fileName);
    }

    @Override
    public LocationProvider locationProvider() {
      return real.temp(current()).locationProvider();
    }
  }
}
