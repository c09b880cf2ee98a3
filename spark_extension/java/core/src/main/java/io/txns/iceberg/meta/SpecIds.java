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
  private static final int LAST_ADDED = -1;
  private final TableMetadata base;
  private int last = LAST_ADDED;

  SpecIds(TableMetadata base) {
    this.base = base;
  }

  /** An equal one under the same id is the logged one: nothing is added, and it is the last. */
  MetadataUpdate here(MetadataUpdate update) {
    if (update instanceof MetadataUpdate.AddPartitionSpec add) {
      PartitionSpec there = base == null ? null : base.spec(add.spec().specId());
      last = isLogged(there, add.spec()) ? there.specId() : LAST_ADDED;
    }
    return update instanceof MetadataUpdate.SetDefaultPartitionSpec set
            && set.specId() == LAST_ADDED
        ? new MetadataUpdate.SetDefaultPartitionSpec(last)
        : update;
  }

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
    ValidationException.check(
        isLogged(here, logged),
        "partition spec %s of the log stands in manifests by its id, under which the table has %s",
        logged.specId(),
        json(here));
  }

  private static boolean isLogged(PartitionSpec here, UnboundPartitionSpec logged) {
    return json(here).equals(PartitionSpecParser.toJson(logged));
  }

  private static String json(PartitionSpec here) {
    return here == null ? "none" : PartitionSpecParser.toJson(here.toUnbound());
  }
}
