package io.txns.iceberg.meta;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
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

  /** An equal one under the same id is the logged one: null, and it is the last one added. */
  MetadataUpdate here(MetadataUpdate update) {
    if (update instanceof MetadataUpdate.AddPartitionSpec add) {
      int id = add.spec().specId();
      last = id;
      PartitionSpec there = base == null ? null : base.spec(id);
      return isLogged(there, add.spec()) ? null : update;
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
    Map<Integer, UnboundPartitionSpec> left = new HashMap<>();
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddPartitionSpec add) {
        left.put(add.spec().specId(), add.spec());
      } else if (update instanceof MetadataUpdate.RemovePartitionSpecs gone) {
        left.keySet().removeAll(gone.specIds());
      }
    }
    left.forEach((id, spec) -> check(replayed.spec(id), spec));
    return replayed;
  }

  /**
   * Refuse what adds a spec that cannot have its id: a stranger has taken it, or the spec away, and
   * Iceberg gives no id but the next one.
   *
   * @param updates by the table's ids: without specs that are there
   * @throws ValidationException where there is one
   */
  public static void refuseOthers(TableMetadata base, List<MetadataUpdate> updates) {
    Set<Integer> taken = new HashSet<>(base.specsById().keySet());
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddPartitionSpec add) {
        int id = add.spec().specId();
        ValidationException.check(
            !taken.contains(id), "there is another partition spec %s in the table", id);
        ValidationException.check(
            id == taken.stream().mapToInt(Integer::intValue).max().orElse(-1) + 1,
            "the table lacks partition spec %s of the log",
            id);
        taken.add(id);
      }
    }
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
