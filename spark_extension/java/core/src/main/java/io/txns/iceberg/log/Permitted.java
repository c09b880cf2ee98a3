package io.txns.iceberg.log;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import java.util.Collection;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Which updates a logged change may have: those that the protocol itself writes. So a record
 * changes of a table what a transaction may change, whoever has written it (docs/spec.md, 7); pure.
 */
public final class Permitted {
  /** What keys of the protocol begin with, of properties and of summaries. */
  public static final String PREFIX = "txns.";

  /** In what two transactions have to meet on a table to clash: the one such property of a user. */
  public static final String CONFLICTS = "txns.conflicts";

  public static final String COMMIT_TABLE = "txns.commit-table";
  public static final String TABLE_UUID = "txns.table-uuid";
  public static final String CREATED = "txns.created";

  /** Which entry claimed a dropped table, to remove it for good. */
  public static final String PURGING = "txns.purging";

  /** The properties that forget removes; {@code txns.applied} stays. */
  public static final Set<String> KEYS =
      Set.of(COMMIT_TABLE, CommitTable.LOG_ID, TABLE_UUID, CREATED);

  /** What the protocol's branches and tags begin with. */
  public static final String REF_PREFIX = "txns-";

  /** Tags of a hold are named this and the hold's name. */
  public static final String HOLD_TAG = REF_PREFIX + "hold-";

  /** Branches that keep a stranger's snapshots are named this and the snapshot's id. */
  public static final String FOREIGN_BRANCH = REF_PREFIX + "foreign-";

  private static final String BRANCH = "branch";
  private static final String TAG = "tag";

  /** What counts where a stranger has set main without its retention, as pyiceberg does. */
  private static final Set<String> RETENTION =
      Set.of(TableProperties.MIN_SNAPSHOTS_TO_KEEP, TableProperties.MAX_SNAPSHOT_AGE_MS);

  /** What keys begin with by which libraries reach storage; pyiceberg takes a table's own first. */
  private static final List<String> REACHING =
      List.of("adls.", "client.", "gcs.", "hdfs.", "hf.", "oss.", "s3.");

  /**
   * Keys that say where files are: pyiceberg's for places that are written without a scheme, too.
   */
  private static final Set<String> PLACING = Set.of("DEFAULT_NETLOC", "DEFAULT_SCHEME", "uri");

  /** Of the commit table: whoever commits removes what its metadata says went before. */
  private static final String DELETES = TableProperties.METADATA_DELETE_AFTER_COMMIT_ENABLED;

  /** What libraries add the counts of the next snapshot to. */
  private static final List<String> TOTALS =
      List.of(
          SnapshotSummary.TOTAL_DATA_FILES_PROP,
          SnapshotSummary.TOTAL_DELETE_FILES_PROP,
          SnapshotSummary.TOTAL_EQ_DELETES_PROP,
          SnapshotSummary.TOTAL_FILE_SIZE_PROP,
          SnapshotSummary.TOTAL_POS_DELETES_PROP,
          SnapshotSummary.TOTAL_RECORDS_PROP);

  private static final Pattern TOTAL = Pattern.compile("-?[0-9]{1,30}|");

  private static final Set<Class<?>> NAMED =
      Set.of(
          MetadataUpdate.AddSchema.class,
          MetadataUpdate.AddPartitionSpec.class,
          MetadataUpdate.AddSortOrder.class,
          MetadataUpdate.AddSnapshot.class,
          MetadataUpdate.SetSnapshotRef.class,
          MetadataUpdate.AddEncryptionKey.class);

  private static final Set<Class<?>> REPAIRS =
      and(NAMED, MetadataUpdate.SetProperties.class, MetadataUpdate.RemoveSnapshotRef.class);

  /** The updates of a change, by the kind of its entry. */
  private static final Map<EntryKind, Set<Class<?>>> ACTIONS =
      Map.of(
          EntryKind.COMMIT,
          and(
              REPAIRS,
              MetadataUpdate.AssignUUID.class,
              MetadataUpdate.UpgradeFormatVersion.class,
              MetadataUpdate.SetCurrentSchema.class,
              MetadataUpdate.SetDefaultPartitionSpec.class,
              MetadataUpdate.SetDefaultSortOrder.class,
              MetadataUpdate.SetLocation.class,
              MetadataUpdate.RemoveProperties.class,
              MetadataUpdate.RemoveSnapshots.class,
              MetadataUpdate.SetStatistics.class,
              MetadataUpdate.RemoveStatistics.class,
              MetadataUpdate.SetPartitionStatistics.class,
              MetadataUpdate.RemovePartitionStatistics.class,
              MetadataUpdate.RemovePartitionSpecs.class,
              MetadataUpdate.RemoveSchemas.class,
              MetadataUpdate.RemoveEncryptionKey.class),
          EntryKind.FORGET,
          and(NAMED, MetadataUpdate.RemoveProperties.class),
          EntryKind.ADOPT,
          REPAIRS,
          EntryKind.REPAIR,
          REPAIRS);

  private Permitted() {}

  private static Set<Class<?>> and(Set<Class<?>> some, Class<?>... more) {
    Set<Class<?>> all = new HashSet<>(some);
    all.addAll(List.of(more));
    return Set.copyOf(all);
  }

  /**
   * Refuse a change that no writer of the protocol logs.
   *
   * @param log the commit table
   * @throws TxnException CorruptLog with the update, and the command that takes the entry away
   */
  static void refuseForbidden(
      LoggedChange logged, UpdateTableRequest request, TableIdentifier log) {
    Optional<String> why = forbidden(logged, request, log);
    if (why.isPresent()) {
      throw TxnException.corruptLog(
          String.format(
              "a logged change has an update that no writer of the protocol logs, and is not"
                  + " carried out; `txns recover --void %d` takes the entry out of the log, then"
                  + " `txns repair adopt` takes the table as it stands; look who has written the"
                  + " commit table: whoever may is trusted; update=`%s` txn=`%s` table=`%s`",
              logged.commitTs(), why.get(), logged.entry().txnId(), logged.change().table()));
    }
  }

  /** What of a change no writer of the protocol logs; empty for nothing. */
  public static Optional<String> forbidden(
      LoggedChange logged, UpdateTableRequest request, TableIdentifier log) {
    Change change = logged.change();
    boolean asserted =
        request.requirements().stream()
            .anyMatch(UpdateRequirement.AssertTableDoesNotExist.class::isInstance);
    if (asserted != creates(change)) {
      return Optional.of("assert-create");
    }
    List<String> uuids =
        request.updates().stream()
            .filter(MetadataUpdate.AssignUUID.class::isInstance)
            .map(update -> TableNames.uuid(((MetadataUpdate.AssignUUID) update).uuid()))
            .toList();
    if (!uuids.equals(creates(change) ? List.of(change.uuid()) : List.of())) {
      return Optional.of("AssignUUID");
    }
    if (!movesMain(change, request)) {
      return Optional.of("SetSnapshotRef main");
    }
    return request.updates().stream().flatMap(update -> why(logged, update, log)).findFirst();
  }

  /** Whether main moves once, to the snapshot that the element names. */
  private static boolean movesMain(Change change, UpdateTableRequest request) {
    List<MetadataUpdate.SetSnapshotRef> moved =
        request.updates().stream()
            .filter(MetadataUpdate.SetSnapshotRef.class::isInstance)
            .map(MetadataUpdate.SetSnapshotRef.class::cast)
            .filter(ref -> ref.name().equals(SnapshotRef.MAIN_BRANCH))
            .toList();
    return moved.size() == 1
        && moved.get(0).type().equals(BRANCH)
        && Objects.equals(moved.get(0).snapshotId(), change.toSnapshotId());
  }

  private static boolean creates(Change change) {
    return change.operation() == Operation.CREATE && change.fromSnapshotId() == null;
  }

  private static Stream<String> why(
      LoggedChange logged, MetadataUpdate update, TableIdentifier log) {
    EntryKind kind = logged.entry().kind();
    Stream<String> parts = Stream.of();
    if (!ACTIONS.getOrDefault(kind, Set.of()).contains(update.getClass())) {
      parts = Stream.of("");
    } else if (update instanceof MetadataUpdate.AddSnapshot add) {
      parts =
          Stream.concat(
              Stream.of("without manifest-list").filter(why -> hasNoList(add.snapshot())),
              Stream.concat(misstamped(logged.entry(), add.snapshot()), noTotals(add.snapshot())));
    } else if (update instanceof MetadataUpdate.SetProperties set) {
      parts = notSet(logged, set.updated(), log);
    } else if (update instanceof MetadataUpdate.RemoveProperties remove) {
      parts = notRemoved(kind, remove.removed());
    } else if (update instanceof MetadataUpdate.SetSnapshotRef ref) {
      parts = Stream.of(ref.name()).filter(name -> !maySet(kind, ref));
    } else if (update instanceof MetadataUpdate.RemoveSnapshotRef ref) {
      parts = Stream.of(ref.name()).filter(name -> !mayDrop(kind, name));
    }
    String action = update.getClass().getSimpleName();
    return parts.map(part -> part.isEmpty() ? action : action + " " + part);
  }

  /** Iceberg's Java reads snapshots of format 1, too, which name their manifests themselves. */
  private static boolean hasNoList(Snapshot snapshot) {
    return snapshot.manifestListLocation() == null;
  }

  /** The keys by which a snapshot says that it is of another entry: others go by them. */
  private static Stream<String> misstamped(Entry entry, Snapshot snapshot) {
    Map<String, String> stamps =
        Map.of(
            EntryParser.COMMIT_TS,
            Long.toString(entry.commitTs()),
            EntryParser.TXN_ID,
            entry.txnId());
    return Stream.of(EntryParser.COMMIT_TS, EntryParser.TXN_ID)
        .filter(key -> !stamps.get(key).equals(snapshot.summary().get(key)));
  }

  /** The totals that are no numbers: pyiceberg appends nothing to what has one. */
  private static Stream<String> noTotals(Snapshot snapshot) {
    return TOTALS.stream()
        .filter(key -> !TOTAL.matcher(snapshot.summary().getOrDefault(key, "")).matches());
  }

  /** The keys that a change may not set, or not to that. */
  private static Stream<String> notSet(
      LoggedChange logged, Map<String, String> updated, TableIdentifier log) {
    Change change = logged.change();
    boolean commits = logged.entry().kind() == EntryKind.COMMIT;
    Map<String, String> fixed = new HashMap<>();
    if (creates(change) || !commits) {
      fixed.put(COMMIT_TABLE, log.toString());
      fixed.put(TABLE_UUID, change.uuid());
      fixed.put(CommitTable.LOG_ID, updated.get(CommitTable.LOG_ID)); // a recovery renews it
    }
    if (commits && change.operation() == Operation.CREATE) {
      fixed.put(CREATED, Long.toString(logged.commitTs()));
    }
    if (commits && change.operation() == Operation.DROP) {
      fixed.put(PURGING, logged.entry().txnId());
    }
    return updated.entrySet().stream()
        .filter(
            set ->
                isReserved(set.getKey())
                    ? !set.getValue().equals(fixed.get(set.getKey()))
                    : steers(set.getKey())
                        || PropertyValues.isUnreadable(set.getKey(), set.getValue())
                        || !commits && !RETENTION.contains(set.getKey()))
        .map(Map.Entry::getKey);
  }

  /** Whether a key is the protocol's own, of a property or of a summary. */
  public static boolean isReserved(String key) {
    return key.startsWith(PREFIX) && !key.equals(CONFLICTS);
  }

  /**
   * Whether a property says which code a library loads, or where it takes a table's files from. Who
   * may write the log only would run code of his own, or see the credentials, of all who open it.
   */
  private static boolean steers(String key) {
    return PLACING.contains(key)
        || key.endsWith(".impl")
        || key.endsWith("-impl")
        || REACHING.stream().anyMatch(key::startsWith);
  }

  /**
   * Refuse to write by what a commit table's properties tell libraries to load, or to delete.
   * Whoever may write the commit table alone would run code of his own, or delete any file, by the
   * hands of all who commit.
   *
   * @throws TxnException 0A000 with the property, which is to be removed with the catalog itself
   */
  static void refuseSteered(Map<String, String> properties) {
    properties.entrySet().stream()
        .filter(set -> steers(set.getKey()) || DELETES.equals(set.getKey()) && isTrue(set))
        .findFirst()
        .ifPresent(
            set -> {
              throw TxnException.unsupported(
                  String.format(
                      "the commit table has a property that no commit table has, by which a library"
                          + " loads code, reaches storage or deletes files, so nothing is written:"
                          + " look who has set it, and remove it with the catalog itself;"
                          + " property=`%s`", // its value may be a secret
                      set.getKey()));
            });
  }

  private static boolean isTrue(Map.Entry<String, String> set) {
    return Boolean.parseBoolean(set.getValue());
  }

  private static Stream<String> notRemoved(EntryKind kind, Collection<String> keys) {
    return keys.stream()
        .filter(key -> kind == EntryKind.FORGET ? !KEYS.contains(key) : isReserved(key));
  }

  private static boolean maySet(EntryKind kind, MetadataUpdate.SetSnapshotRef ref) {
    if (kind != EntryKind.COMMIT) {
      return SnapshotRef.MAIN_BRANCH.equals(ref.name());
    }
    boolean held = ref.name().startsWith(HOLD_TAG) && TAG.equals(ref.type());
    return held || !ref.name().startsWith(REF_PREFIX);
  }

  private static boolean mayDrop(EntryKind kind, String name) {
    return !SnapshotRef.MAIN_BRANCH.equals(name)
        && (kind == EntryKind.COMMIT || name.startsWith(FOREIGN_BRANCH));
  }
}
