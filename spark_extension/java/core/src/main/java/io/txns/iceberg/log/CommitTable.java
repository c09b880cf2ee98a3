package io.txns.iceberg.log;

import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.apache.iceberg.types.Types.NestedField.required;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.Timestamps;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.types.Types;
import org.apache.iceberg.util.LocationUtil;

/** What the commit table is made of: its columns, its properties, its first record. */
public final class CommitTable {
  /** The archive: one row per entry and change. */
  public static final Schema SCHEMA =
      new Schema(
          required(1, "commit_ts", Types.LongType.get()),
          required(2, "committed_at", Types.TimestampType.withZone()),
          required(3, "txn_id", Types.StringType.get()),
          required(4, "kind", Types.StringType.get()),
          optional(5, "table_name", Types.StringType.get()),
          optional(6, "table_uuid", Types.StringType.get()),
          optional(7, "operation", Types.StringType.get()),
          optional(8, "parent_snapshot_id", Types.LongType.get()),
          optional(9, "snapshot_id", Types.LongType.get()),
          optional(10, "added_records", Types.LongType.get()),
          optional(11, "deleted_records", Types.LongType.get()),
          required(12, "read_ts", Types.LongType.get()),
          required(13, "isolation", Types.StringType.get()),
          optional(14, "engine", Types.StringType.get()),
          optional(15, "comment", Types.StringType.get()));

  private static final Map<String, String> PROPERTIES =
      Map.of(
          "format-version", "2",
          "write.metadata.compression-codec", "none",
          "write.metadata.previous-versions-max", "1",
          "write.metadata.delete-after-commit.enabled", "false",
          "gc.enabled", "false");

  /** On the commit table: which epoch of the log it is in; on a data table, of its log. */
  public static final String LOG_ID = "txns.log-id";

  /** A hundred years: with the count below, what keeps other engines' expiry away. */
  private static final long MAX_SNAPSHOT_AGE_MS = 100L * 365 * 24 * 3600 * 1000;

  /** How many of its first columns tell a commit table from others. */
  private static final int TELLING_COLUMNS = 4;

  private CommitTable() {}

  /**
   * What marks name a log by: its commit table's uuid, and what a recovery has added to it.
   *
   * <p>Two tables never have one: properties that a copy has brought along begin with another uuid.
   */
  static String logId(TableMetadata metadata) {
    return logId(TableNames.uuid(metadata), metadata.properties());
  }

  static String logId(String uuid, Map<String, String> properties) {
    String renewed = properties.getOrDefault(LOG_ID, "");
    return renewed.startsWith(uuid + "-") ? renewed : uuid;
  }

  /** An update of a data table whose mark, if it sets one, names the log as it is now. */
  static MetadataUpdate inEpoch(MetadataUpdate update, Supplier<String> logId) {
    if (!(update instanceof MetadataUpdate.SetProperties set)
        || !set.updated().containsKey(LOG_ID)) {
      return update;
    }
    Map<String, String> updated = new HashMap<>(set.updated());
    updated.put(LOG_ID, logId.get());
    return new MetadataUpdate.SetProperties(updated);
  }

  /** Whether a file lies below a commit table's location, as its metadata writes paths. */
  public static boolean isItsOwn(String path, String location) {
    return path.startsWith(LocationUtil.stripTrailingSlash(location) + "/")
        && !List.of(path.split("/")).contains("..");
  }

  /** Whether a table has a commit table's first columns, by id and name. */
  public static boolean hasColumns(Schema schema) {
    return SCHEMA.columns().stream()
        .limit(TELLING_COLUMNS)
        .allMatch(column -> column.name().equals(schema.findColumnName(column.fieldId())));
  }

  /**
   * Create the commit table with its first record, in one step; two creators end with one table.
   */
  static void create(Catalog catalog, TableIdentifier identifier, TxnClock clock) {
    createNamespace(catalog, identifier);
    Entry first =
        new Entry(
            EntryKind.TIDY,
            0,
            0,
            0,
            0,
            0,
            clock.newTxnId(),
            Isolation.SNAPSHOT,
            Engine.name(),
            "",
            List.of(),
            Entry.Payload.NONE);
    try {
      Transaction transaction =
          catalog.buildTable(identifier, SCHEMA).withProperties(PROPERTIES).createTransaction();
      var append = transaction.newFastAppend();
      EntryParser.toSummary(first).forEach(append::set);
      append.commit();
      transaction
          .manageSnapshots()
          .setMinSnapshotsToKeep(SnapshotRef.MAIN_BRANCH, Integer.MAX_VALUE)
          .setMaxSnapshotAgeMs(SnapshotRef.MAIN_BRANCH, MAX_SNAPSHOT_AGE_MS)
          .commit();
      transaction.commitTransaction();
    } catch (AlreadyExistsException e) {
      // somebody else has created it: theirs is as good
    }
  }

  private static void createNamespace(Catalog catalog, TableIdentifier identifier) {
    if (!(catalog instanceof SupportsNamespaces namespaces) || !identifier.hasNamespace()) {
      return;
    }
    Namespace namespace = identifier.namespace();
    if (namespaces.namespaceExists(namespace)) {
      return;
    }
    try {
      namespaces.createNamespace(namespace);
    } catch (RuntimeException e) {
      // Two creators: JdbcCatalog tells the second one of its database's key, not of the namespace.
      if (!namespaces.namespaceExists(namespace)) {
        throw e;
      }
    }
  }

  /** The next version, with entries after all that it has. */
  static TableMetadata appended(TableOperations ops, TableMetadata base, List<Entry> entries) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    Snapshot parent = base.currentSnapshot();
    long sequenceNumber = base.lastSequenceNumber();
    long timeMs = Timestamps.newestMs(base);
    for (Entry entry : entries) {
      Snapshot snapshot =
          SnapshotEdit.create(ops.newSnapshotId(), DataOperations.APPEND)
              .parent(parent.snapshotId())
              .sequenceNumber(++sequenceNumber)
              .timestampMs(++timeMs) // no clock: the times of the log never go back
              .manifestList(parent.manifestListLocation())
              .schemaId(base.currentSchemaId())
              .summary(EntryParser.toSummary(entry))
              .build();
      builder.addSnapshot(snapshot);
      parent = snapshot;
    }
    SnapshotRef main = base.ref(SnapshotRef.MAIN_BRANCH);
    builder.setRef(
        SnapshotRef.MAIN_BRANCH, SnapshotRef.builderFrom(main, parent.snapshotId()).build());
    return builder.build();
  }
}
