package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;

/** The schemas and sort orders that a change names, by the ids of what it was staged on; pure. */
public final class NamedIds {
  private final Set<Integer> schemas = new HashSet<>();
  private final Set<Integer> orders = new HashSet<>();

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
    updates.forEach(named::add);
    Snapshot source = base.currentSnapshot();
    named.schemas.remove(source == null ? null : source.schemaId());
    named.orders.remove(SortOrder.unsorted().orderId());
    List<MetadataUpdate> all = new ArrayList<>();
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

  private void add(MetadataUpdate update) {
    if (update instanceof MetadataUpdate.SetCurrentSchema current) {
      schemas.add(current.schemaId());
    } else if (update instanceof MetadataUpdate.AddSnapshot added) {
      schemas.add(added.snapshot().schemaId());
    } else if (update instanceof MetadataUpdate.RemoveSchemas gone) {
      schemas.addAll(gone.schemaIds());
    } else if (update instanceof MetadataUpdate.SetDefaultSortOrder set) {
      orders.add(set.sortOrderId());
    }
  }
}
