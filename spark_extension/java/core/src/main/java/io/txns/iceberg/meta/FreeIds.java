package io.txns.iceberg.meta;

import java.util.List;
import java.util.Objects;
import java.util.stream.Stream;
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
 * the equal one, or the next free id. So it is with partition specs, but that they keep their ids.
 * Iceberg's builder gives these very ids. It says of nothing that the table has already that it was
 * added last, and takes an id that a change names for the table's.
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
    Snapshot source = sourceId == null ? null : base.snapshot(sourceId);
    FreeIds named = new FreeIds(base, source);
    // An id that was given away above may be given again below.
    named.here(request.updates().stream().takeWhile(FreeIds::isNaming).toList());
    List<UpdateRequirement> requirements =
        request.requirements().stream().map(named::here).toList();
    List<MetadataUpdate> updates = new FreeIds(base, source).here(request.updates());
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

  private static boolean isNaming(MetadataUpdate update) {
    return update instanceof MetadataUpdate.AddSchema
        || update instanceof MetadataUpdate.AddSortOrder
        || update instanceof MetadataUpdate.AddPartitionSpec;
  }

  private List<MetadataUpdate> here(List<MetadataUpdate> updates) {
    return Stream.concat(
            updates.stream()
                .map(schemas::here)
                .filter(Objects::nonNull)
                .map(orders::here)
                .filter(Objects::nonNull)
                .map(specs::here)
                .filter(Objects::nonNull),
            Stream.of(schemas).flatMap(SchemaIds::removals))
        .toList();
  }

  private UpdateRequirement here(UpdateRequirement requirement) {
    return orders.here(schemas.here(requirement));
  }
}
