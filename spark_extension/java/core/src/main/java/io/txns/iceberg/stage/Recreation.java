package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.meta.ColumnIds;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.TableMark;
import java.util.Arrays;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.util.PropertyUtil;

/**
 * A dropped name created again, on its physical table: a new table with the old one's numbers, in
 * the state that it was planned on (docs/spec.md 6.5).
 *
 * @param orReplace whether it may be run again where somebody else has the name by then
 */
public record Recreation(TableIdentifier table, boolean orReplace) {
  /** What refs of ours begin with: holds, and branches that keep a stranger's snapshots. */
  private static final String TXNS_REF = "txns-";

  /**
   * Iceberg's own replacement, but for the ids of columns whose type is another one.
   *
   * @param wanted the properties that are asked for
   */
  public static TableMetadata replaced(
      TableMetadata base,
      Schema schema,
      PartitionSpec spec,
      SortOrder sortOrder,
      String location,
      Map<String, String> wanted) {
    TableMetadata byName = base.buildReplacement(schema, spec, sortOrder, location, wanted);
    AtomicInteger last = new AtomicInteger(base.lastColumnId());
    Schema columns = ColumnIds.keptWhereReadable(base.schema(), schema, last);
    if (columns.sameSchema(byName.schema())) {
      return byName;
    }
    int format =
        PropertyUtil.propertyAsInt(wanted, TableProperties.FORMAT_VERSION, base.formatVersion());
    // Iceberg finds the ids by name in what it replaces: that has the new columns already.
    TableMetadata named =
        TableMetadata.buildFrom(base)
            .upgradeFormatVersion(format)
            .setDefaultPartitionSpec(PartitionSpec.unpartitioned())
            .setDefaultSortOrder(SortOrder.unsorted())
            .setCurrentSchema(columns, last.get())
            .build();
    TableMetadata replaced = named.buildReplacement(schema, spec, sortOrder, location, wanted);
    return Replacement.laidOn(base, replaced);
  }

  /**
   * The same without what is left of the dropped table, but for its mark.
   *
   * @param properties what a table of a new name would have
   */
  public static TableMetadata afresh(TableMetadata replaced, Map<String, String> properties) {
    Set<String> old = new HashSet<>(TableMark.withoutReserved(replaced.properties()).keySet());
    old.removeAll(properties.keySet());
    TableMetadata.Builder builder =
        TableMetadata.buildFrom(replaced).removeProperties(old).setProperties(properties);
    replaced.refs().keySet().stream()
        .filter(ref -> !ref.startsWith(TXNS_REF) && !ref.equals(SnapshotRef.MAIN_BRANCH))
        .forEach(builder::removeRef);
    return builder.build();
  }

  /**
   * The state that it was planned on, as it stands now: who has applied older entries meanwhile has
   * changed nothing of it.
   *
   * @throws AlreadyExistsException where somebody else has created the table, and it is not to be
   *     replaced
   * @throws TxnException 40001: it is to be planned again
   */
  public Loaded standing(Loaded planned, Loaded newest) {
    TableMetadata base = planned.metadata();
    if (newest instanceof Loaded.Registered dropped && dropped.dropped()) {
      if (!isBase(base, dropped.metadata())) {
        throw moved(table, dropped.readTs());
      }
      return dropped.showing(base);
    }
    if (!orReplace) {
      throw new AlreadyExistsException("Table already exists: %s", table);
    }
    throw moved(table, Math.max(planned.readTs(), newest.readTs()));
  }

  /** Whether what was planned on one state of a dropped table fits on another one. */
  private static boolean isBase(TableMetadata base, TableMetadata table) {
    return numbers(base).equals(numbers(table));
  }

  private static List<Object> numbers(TableMetadata metadata) {
    return Arrays.asList(
        TableNames.uuid(metadata),
        History.mainId(metadata),
        metadata.lastColumnId(),
        metadata.lastAssignedPartitionId(),
        metadata.schemas().stream().map(Schema::schemaId).collect(Collectors.toSet()),
        metadata.specs().stream().map(PartitionSpec::specId).collect(Collectors.toSet()),
        metadata.sortOrders().stream().map(SortOrder::orderId).collect(Collectors.toSet()));
  }

  /**
   * The error for a creation whose name has been used since it was planned.
   *
   * @param leastTs what it is to be planned at, at least
   */
  public static TxnException moved(TableIdentifier table, long leastTs) {
    return TxnException.conflict(
        table,
        "",
        Winner.NOBODY,
        leastTs,
        "somebody has created, dropped or purged a table of this name since its creation was"
            + " planned");
  }
}
