package io.txns.iceberg.table;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.CommitTable;
import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Permitted;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * The mark in a data table's properties that puts it under a commit table's care.
 *
 * @param commitTable the commit table that cares for it
 * @param logId of its log: that commit table's uuid, and what a recovery has added to it
 * @param created {@code commit_ts} of the table's incarnation; 0 for a registered table
 * @param applied the greatest {@code commit_ts} that has been applied (invariant I4)
 */
public record TableMark(TableIdentifier commitTable, String logId, long created, long applied) {
  /** What keys of the protocol begin with, of properties and of summaries. */
  public static final String COMMIT_TABLE = Permitted.COMMIT_TABLE;

  public static final String LOG_ID = CommitTable.LOG_ID;
  static final String TABLE_UUID = Permitted.TABLE_UUID;
  public static final String CREATED = Permitted.CREATED;
  public static final String APPLIED = "txns.applied";

  /** Which entry claimed a dropped table, to remove it for good. */
  public static final String PURGING = Permitted.PURGING;

  /** The properties that forget removes; {@link #APPLIED} stays. */
  public static final Set<String> KEYS = Permitted.KEYS;

  /** Summary keys of the snapshots that the protocol puts on data tables. */
  public static final String SNAPSHOT_COMMIT_TS = "txns.commit-ts";

  /** On a snapshot of a change that it does not leave {@code main} on. */
  public static final String SNAPSHOT_PASSING = "txns.passing";

  public static final String SNAPSHOT_TXN_ID = "txns.txn-id";
  public static final String SNAPSHOT_DROPPED = "txns.dropped";
  public static final String SNAPSHOT_ADOPTED = "txns.adopted";
  public static final String SNAPSHOT_RESTORED = "txns.restored";

  /**
   * On what adopts a table that was set back: above which {@code commit_ts} its states are gone.
   */
  public static final String SNAPSHOT_LOST_ABOVE = "txns.lost-above";

  /** Tags of a hold are named this and the hold's name. */
  public static final String HOLD_TAG = Permitted.HOLD_TAG;

  /** Tags on snapshots whose files came back are named this; see {@code KeptTags}. */
  public static final String KEPT_TAG = Permitted.REF_PREFIX + "kept-";

  /** Branches that keep a stranger's snapshots are named this and the snapshot's id. */
  public static final String FOREIGN_BRANCH = Permitted.FOREIGN_BRANCH;

  /**
   * The mark of a table, if it has one of its own.
   *
   * <p>A mark that LIKE or a snapshot procedure copied names another table's uuid: it does not
   * count.
   */
  public static Optional<TableMark> of(TableMetadata metadata) {
    Map<String, String> properties = metadata.properties();
    String commitTable = properties.get(COMMIT_TABLE);
    if (commitTable == null || !TableNames.uuid(metadata).equals(properties.get(TABLE_UUID))) {
      return Optional.empty();
    }
    return Optional.of(
        new TableMark(
            commitTable(commitTable),
            properties.get(LOG_ID),
            number(properties, CREATED),
            number(properties, APPLIED)));
  }

  private static TableIdentifier commitTable(String stored) {
    if (stored.isEmpty() || stored.endsWith(".") || stored.indexOf('\0') >= 0) {
      throw TxnException.corruptLog(
          String.format("the mark names no commit table; %s=`%s`", COMMIT_TABLE, stored));
    }
    return TableIdentifier.parse(stored);
  }

  /**
   * Whether a table is a log, this one or another: it has the archive's columns, and has had a
   * record since its creation. One alone tells nothing: anybody can make a table of the archive's
   * rows, or name a summary's key.
   */
  static boolean isCommitTable(TableMetadata metadata) {
    return CommitTable.hasColumns(metadata.schema())
        && metadata.snapshots().stream()
            .anyMatch(at -> at.summary() != null && at.summary().containsKey(EntryParser.KIND));
  }

  /**
   * Refuse keys that a user must not set: of a snapshot's summary, or of a table under care.
   *
   * @param base the table before; null for a new one, which gets its mark by the same changes
   * @throws TxnException 42602 where one begins with {@code txns.}
   */
  public static void refuseReserved(
      TableIdentifier table, TableMetadata base, List<MetadataUpdate> changes) {
    boolean marked = base != null && of(base).isPresent();
    for (MetadataUpdate change : changes) {
      if (change instanceof MetadataUpdate.AddSnapshot add) {
        refuseReserved(table, add.snapshot().summary().keySet());
      } else if (marked && change instanceof MetadataUpdate.SetProperties set) {
        refuseReserved(table, changed(base.properties(), set.updated()));
      } else if (marked && change instanceof MetadataUpdate.RemoveProperties remove) {
        Set<String> taken = new HashSet<>(remove.removed());
        taken.retainAll(base.properties().keySet());
        refuseReserved(table, taken);
      }
    }
  }

  private static Set<String> changed(Map<String, String> before, Map<String, String> updated) {
    Set<Map.Entry<String, String>> changed = new HashSet<>(updated.entrySet());
    changed.removeAll(before.entrySet());
    return changed.stream().map(Map.Entry::getKey).collect(Collectors.toSet());
  }

  private static void refuseReserved(TableIdentifier table, Set<String> keys) {
    for (String key : keys) {
      if (Permitted.isReserved(key)) {
        throw TxnException.invalidUsage(
            "42602",
            String.format(
                "properties that begin with txns. are the protocol's own, of snapshots and of"
                    + " tables under care: leave it out, or give it another name; forget takes a"
                    + " table from care; key=`%s` table=`%s`",
                key, table));
      }
    }
  }

  /** What a registration removes: keys that a copy of another table's properties has brought. */
  public static Set<String> copiedKeys(TableMetadata metadata) {
    boolean own = TableNames.uuid(metadata).equals(metadata.properties().get(TABLE_UUID));
    return own ? Set.of(CREATED) : Set.of(CREATED, PURGING);
  }

  /** A user's own properties, without those that a copy of another table's has brought. */
  public static Map<String, String> withoutReserved(Map<String, String> properties) {
    return properties.entrySet().stream()
        .filter(entry -> !Permitted.isReserved(entry.getKey()))
        .collect(Collectors.toMap(Map.Entry::getKey, Map.Entry::getValue));
  }

  /**
   * Refuse to mark or to write a commit table: a snapshot that is no record would end its log.
   *
   * @throws TxnException 0A000 where it is one
   */
  public static void refuseCommitTable(TableIdentifier table, TableMetadata metadata) {
    if (isCommitTable(metadata)) {
      throw writtenByProtocolOnly(table);
    }
  }

  /** The error for a write to a commit table. */
  public static TxnException writtenByProtocolOnly(TableIdentifier table) {
    return TxnException.unsupported(
        String.format(
            "this is a commit table, which is written by the protocol only and never comes under"
                + " care: read it, and write other tables; table=`%s`",
            table));
  }

  /** Whether a snapshot is the marker of a dropped table. */
  public static boolean isDropped(Snapshot main) {
    return main != null && main.summary() != null && main.summary().containsKey(SNAPSHOT_DROPPED);
  }

  /** The strangers' snapshots that one of ours has taken in. */
  static List<Long> adopted(Snapshot snapshot) {
    String ids =
        snapshot.summary() == null ? null : snapshot.summary().get(TableMark.SNAPSHOT_ADOPTED);
    return ids == null ? List.of() : EntryParser.snapshotIds(ids, SNAPSHOT_ADOPTED);
  }

  /** Above which {@code commit_ts}, and below its own, states are gone; empty for none. */
  public static OptionalLong lostAbove(Snapshot snapshot) {
    Map<String, String> summary = snapshot.summary();
    return summary == null || !summary.containsKey(SNAPSHOT_LOST_ABOVE)
        ? OptionalLong.empty()
        : OptionalLong.of(number(summary, SNAPSHOT_LOST_ABOVE));
  }

  /** A table without the properties that its forget takes; the {@code commit_ts} is that one's. */
  public static TableMetadata.Builder leaving(TableMetadata metadata, long commitTs) {
    return TableMetadata.buildFrom(metadata)
        .removeProperties(KEYS)
        .setProperties(Map.of(APPLIED, Long.toString(commitTs)));
  }

  /** {@link #APPLIED} of a table with or without a mark; 0 where there is none. */
  public static long applied(TableMetadata metadata) {
    return number(metadata.properties(), APPLIED);
  }

  /** What stands in a head for a table that does not show it yet, ascending. */
  public static List<LoggedChange> outstanding(TableMetadata metadata, Head head) {
    return head.state().changes(TableNames.uuid(metadata), applied(metadata), head.upper());
  }

  /** The properties that mark the table with uuid {@code tableUuid}, but for {@link #APPLIED}. */
  public static Map<String, String> properties(
      TableIdentifier commitTable, String logId, String tableUuid) {
    Map<String, String> properties = new LinkedHashMap<>();
    properties.put(COMMIT_TABLE, commitTable.toString());
    properties.put(LOG_ID, logId);
    properties.put(TABLE_UUID, tableUuid);
    return properties;
  }

  private static long number(Map<String, String> properties, String key) {
    String value = properties.get(key);
    return value == null ? 0 : EntryParser.number(value, key);
  }
}
