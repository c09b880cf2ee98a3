package io.txns.iceberg;

import java.util.HashSet;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.util.PropertyUtil;

/**
 * A dropped name created again, on its physical table: a new table with the old one's numbers
 * (docs/spec.md 6.5).
 */
final class Recreation {
  /** What refs of ours begin with: holds, and branches that keep a stranger's snapshots. */
  private static final String TXNS_REF = "txns-";

  private Recreation() {}

  /**
   * Iceberg's own replacement, but for the ids of columns whose type is another one.
   *
   * @param wanted the properties that are asked for
   */
  static TableMetadata replaced(
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
  static TableMetadata afresh(TableMetadata replaced, Map<String, String> properties) {
    Set<String> old = new HashSet<>(TableMark.withoutReserved(replaced.properties()).keySet());
    old.removeAll(properties.keySet());
    TableMetadata.Builder builder =
        TableMetadata.buildFrom(replaced).removeProperties(old).setProperties(properties);
    replaced.refs().keySet().stream()
        .filter(ref -> !ref.startsWith(TXNS_REF) && !ref.equals(SnapshotRef.MAIN_BRANCH))
        .forEach(builder::removeRef);
    return builder.build();
  }
}
