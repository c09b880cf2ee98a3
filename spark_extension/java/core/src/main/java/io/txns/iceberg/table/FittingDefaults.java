package io.txns.iceberg.table;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.types.Type;

/**
 * The spec and the order that a table goes by when a logged change is laid over it; pure.
 *
 * <p>Strangers may have had it go by columns that the change takes away, of which no requirement
 * tells: Iceberg refuses such a table, so others come before the change.
 */
final class FittingDefaults {
  private static final int LAST_ADDED = -1;

  private FittingDefaults() {}

  /** Why the table's own do not fit a change, in words; empty where they do. */
  static Optional<String> unfit(TableMetadata base, List<MetadataUpdate> updates) {
    Schema schema = left(base, updates);
    if (!fitsOrder(base, updates, schema)) {
      return Optional.of("the table is sorted by a column that the change takes away");
    }
    return fitsSpec(base, updates, schema)
        ? Optional.empty()
        : Optional.of("the table is partitioned by a column that the change takes away");
  }

  /** Set those that fit a change: the order of no columns, the newest spec that can be. */
  static void set(TableMetadata.Builder builder, TableMetadata base, List<MetadataUpdate> updates) {
    Schema schema = left(base, updates);
    if (!fitsOrder(base, updates, schema)) {
      builder.setDefaultSortOrder(SortOrder.unsorted());
    }
    if (!fitsSpec(base, updates, schema)) {
      base.specs().stream()
          .filter(spec -> EarlierSchema.isOf(spec, schema))
          .mapToInt(PartitionSpec::specId)
          .max()
          .ifPresentOrElse(
              builder::setDefaultPartitionSpec,
              () -> builder.setDefaultPartitionSpec(PartitionSpec.unpartitioned()));
    }
  }

  /**
   * The same metadata. Iceberg loads no table with a spec, be it an old one, whose transform is not
   * of its column's type: a stranger's, of a column whose id the log has given to another.
   *
   * @throws ValidationException where there is such a spec
   */
  static TableMetadata loadable(TableMetadata replayed) {
    for (PartitionSpec spec : replayed.specs()) {
      for (PartitionField field : spec.fields()) {
        Type type = replayed.schema().findType(field.sourceId());
        ValidationException.check(
            type == null || field.transform().isVoid() || field.transform().canTransform(type),
            "partition spec %s of the table has the field `%s` of a column that is %s `%s` in the"
                + " log: expire the spec outside the protocol",
            spec.specId(),
            field.name(),
            type,
            replayed.schema().findColumnName(field.sourceId()));
      }
    }
    return replayed;
  }

  private static boolean fitsOrder(
      TableMetadata base, List<MetadataUpdate> updates, Schema schema) {
    return EarlierSchema.isOf(base.sortOrder(), schema)
        || updates.stream().anyMatch(MetadataUpdate.SetDefaultSortOrder.class::isInstance);
  }

  private static boolean fitsSpec(TableMetadata base, List<MetadataUpdate> updates, Schema schema) {
    return EarlierSchema.isOf(base.spec(), schema)
        || updates.stream().anyMatch(MetadataUpdate.SetDefaultPartitionSpec.class::isInstance);
  }

  /** The schema that a change leaves current. */
  private static Schema left(TableMetadata base, List<MetadataUpdate> updates) {
    Map<Integer, Schema> known = new HashMap<>(base.schemasById());
    Schema left = base.schema();
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddSchema add) {
        known.put(add.schema().schemaId(), add.schema());
        known.put(LAST_ADDED, add.schema());
      } else if (update instanceof MetadataUpdate.SetCurrentSchema set) {
        left = known.getOrDefault(set.schemaId(), left);
      }
    }
    return left;
  }
}
