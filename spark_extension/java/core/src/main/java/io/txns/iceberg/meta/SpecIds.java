package io.txns.iceberg.meta;

import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UnboundPartitionSpec;
import org.apache.iceberg.exceptions.ValidationException;

/**
 * The ids of the partition specs that a logged change adds: they stand in its manifests, and so the
 * table must have them under these.
 *
 * <p>Iceberg's builder gives a spec the next free id where a stranger has taken its own, and says
 * nothing; rows would be looked for in partitions of another spec then (docs/spec.md 7).
 */
public final class SpecIds {
  private SpecIds() {}

  /**
   * The same metadata.
   *
   * @param replayed a table with a change laid over it
   * @param updates those of the change
   * @throws ValidationException where a spec that they add has another id in it
   */
  public static TableMetadata checked(TableMetadata replayed, List<MetadataUpdate> updates) {
    Set<Integer> removed =
        updates.stream()
            .filter(MetadataUpdate.RemovePartitionSpecs.class::isInstance)
            .flatMap(update -> ((MetadataUpdate.RemovePartitionSpecs) update).specIds().stream())
            .collect(Collectors.toSet());
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddPartitionSpec add
          && !removed.contains(add.spec().specId())) {
        check(replayed.spec(add.spec().specId()), add.spec());
      }
    }
    return replayed;
  }

  private static void check(PartitionSpec here, UnboundPartitionSpec logged) {
    String found = here == null ? "none" : PartitionSpecParser.toJson(here.toUnbound());
    ValidationException.check(
        found.equals(PartitionSpecParser.toJson(logged)),
        "partition spec %s of the log stands in manifests by its id, under which the table has %s",
        logged.specId(),
        found);
  }
}
