package io.txns.iceberg.meta;

import java.util.List;
import java.util.Objects;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * The ids of schemas and sort orders: by those of what a change was staged on, and by the table's
 * (docs/spec.md 7); pure.
 *
 * <p>Strangers may have taken an id that a change gives, or what came before it was given another
 * one. So a change says what each id that it names was ({@link NamedIds}), and who applies it finds
 * the equal one, or the next free id. Iceberg's builder gives the ids. It says of nothing that the
 * table has already that it was added last, and takes an id that a change names for the table's.
 */
public final class FreeIds {
  private final SchemaIds schemas;
  private final SortOrderIds orders;
  private final SpecIds specs;

  private FreeIds(TableMetadata base, Snapshot source) {
    this.schemas = new SchemaIds(base, source == null ? null : source.schemaId());
    this.orders = new SortOrderIds(base);
    this.specs = new SpecIds(base);
  }

  /**
   * A change's request by a table's ids; what the table has already is not added again.
   *
   * @param sourceId the snapshot that the change was staged on: a schema that it does not add is
   *     that one's. Null where there is none.
   */
  public static UpdateTableRequest in(
      TableMetadata base, UpdateTableRequest request, Long sourceId) {
    FreeIds ids = new FreeIds(base, sourceId == null ? null : base.snapshot(sourceId));
    List<MetadataUpdate> updates = ids.here(request.updates());
    List<UpdateRequirement> requirements = request.requirements().stream().map(ids::here).toList();
    return UpdateTableRequest.create(request.identifier(), requirements, updates);
  }

  /**
   * Updates that name what is there by a table's ids.
   *
   * @param base null for a table that they create
   */
  public static List<MetadataUpdate> in(TableMetadata base, List<MetadataUpdate> updates) {
    return new FreeIds(base, null).here(updates);
  }

  private List<MetadataUpdate> here(List<MetadataUpdate> updates) {
    return updates.stream()
        .map(schemas::here)
        .filter(Objects::nonNull)
        .map(orders::here)
        .filter(Objects::nonNull)
        .map(specs::here)
        .toList();
  }

  private UpdateRequirement here(UpdateRequirement requirement) {
    return orders.here(schemas.here(requirement));
  }
}
