package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotSummary;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;

/**
 * The schemas, specs and sort orders that a change names, by the ids of what it was staged on;
 * pure.
 */
public final class NamedIds {
  private final Set<Integer> schemas = new HashSet<>();
  private final Set<Integer> orders = new HashSet<>();
  private final Set<Integer> specs = new HashSet<>();

  private NamedIds() {}

  /**
   * A change's updates, before them those that add what it names of what is there already: so that
   * {@link FreeIds} can tell what each id was. But for the schema of the snapshot that {@code main}
   * is on, which most changes name.
   *
   * @param base what the change was staged on
   */
  public static List<MetadataUpdate> added(
      TableMetadata base, List<UpdateRequirement> requirements, List<MetadataUpdate> updates) {
    NamedIds named = new NamedIds();
    requirements.forEach(named::add);
    updates.forEach(update -> named.add(update, base));
    Snapshot source = base.currentSnapshot();
    named.schemas.remove(source == null ? null : source.schemaId());
    named.orders.remove(SortOrder.unsorted().orderId());
    List<MetadataUpdate> all = new ArrayList<>();
    base.specs().stream()
        .filter(spec -> named.specs.contains(spec.specId()))
        .map(MetadataUpdate.AddPartitionSpec::new)
        .forEach(all::add);
    base.schemas().stream()
        .filter(schema -> named.schemas.contains(schema.schemaId()))
        .map(MetadataUpdate.AddSchema::new)
        .forEach(all::add);
    base.sortOrders().stream()
        .filter(order -> named.orders.contains(order.orderId()))
        .map(MetadataUpdate.AddSortOrder::new)
        .forEach(all::add);
    all.addAll(updates);
    return all;
  }

  private void add(UpdateRequirement requirement) {
    if (requirement instanceof UpdateRequirement.AssertCurrentSchemaID current) {
      schemas.add(current.schemaId());
    } else if (requirement instanceof UpdateRequirement.AssertDefaultSortOrderID order) {
      orders.add(order.sortOrderId());
    }
  }

  private void add(MetadataUpdate update, TableMetadata base) {
    if (update instanceof MetadataUpdate.SetCurrentSchema current) {
      schemas.add(current.schemaId());
    } else if (update instanceof MetadataUpdate.AddSnapshot added) {
      schemas.add(added.snapshot().schemaId());
      if (addsFiles(added.snapshot())) {
        specs.add(base.defaultSpecId());
      }
    } else if (update instanceof MetadataUpdate.RemoveSchemas gone) {
      schemas.addAll(gone.schemaIds());
    } else if (update instanceof MetadataUpdate.SetDefaultSortOrder set) {
      orders.add(set.sortOrderId());
    } else if (update instanceof MetadataUpdate.SetDefaultPartitionSpec set) {
      specs.add(set.specId());
    }
  }

  private static boolean addsFiles(Snapshot snapshot) {
    return snapshot.summary() != null
        && Stream.of(SnapshotSummary.ADDED_FILES_PROP, SnapshotSummary.ADDED_DELETE_FILES_PROP)
            .anyMatch(key -> !snapshot.summary().getOrDefault(key, "0").equals("0"));
  }
}
