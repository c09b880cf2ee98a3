package io.txns.iceberg.meta;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.PartitionSpecParser;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UnboundPartitionSpec;

/**
 * How far above a table's numbers those of a logged change may be (docs/spec.md, 7); pure. Numbers
 * end: at 2^63 - 1 those of snapshots, where nobody writes the table any more, and at 2^31 - 1 the
 * ids of columns and partitions. And a snapshot that stands on itself has no last one: who walks
 * that history comes to no end.
 */
public final class SnapshotNumbers {
  /** How many snapshots a table can have lost since a change was staged on it; and many more. */
  private static final long SNAPSHOTS_AHEAD_MAX = 1L << 32;

  /** The same of rows, and how many rows one change adds. */
  private static final long ROWS_AHEAD_MAX = 1L << 48;

  /** The same of columns, partition fields, specs, schemas and sort orders. */
  private static final long IDS_AHEAD_MAX = 1L << 20;

  /** Below this id are the columns of manifests: with both nobody plans a scan. */
  private static final int FIRST_PARTITION_ID = 1000;

  private static final ObjectMapper JSON = new ObjectMapper();

  private SnapshotNumbers() {}

  /**
   * The first number of a change that no writer has given. Writers number from where the table is
   * that they stage on. It may lose some of that by a recovery, or by whoever sets it back, but
   * nobody loses that many.
   *
   * @param base the table that the change is laid over; null for a new one
   */
  public static Optional<String> farAhead(
      TableMetadata base, Collection<? extends MetadataUpdate> updates) {
    List<Snapshot> added = AddedSnapshots.of(updates);
    return Stream.of(
            updates.stream().flatMap(update -> farIds(base, update)),
            farNumbers(base, added),
            circles(base, added))
        .flatMap(found -> found)
        .findFirst();
  }

  private static Stream<String> farNumbers(TableMetadata base, List<Snapshot> added) {
    long newest = base == null ? 0 : base.lastSequenceNumber();
    long nextRow = base == null ? 0 : base.nextRowId();
    long left = ROWS_AHEAD_MAX;
    for (Snapshot snapshot : added) {
      long rows = snapshot.addedRows() == null ? 0 : snapshot.addedRows();
      Long first = snapshot.firstRowId();
      if (isAbove(snapshot.sequenceNumber(), SNAPSHOTS_AHEAD_MAX, newest)) {
        return Stream.of("sequence-number " + snapshot.sequenceNumber());
      }
      if (first != null && isAbove(first, ROWS_AHEAD_MAX, nextRow)) {
        return Stream.of("first-row-id " + first);
      }
      if (rows > left) {
        return Stream.of("added-rows " + rows);
      }
      left -= Math.max(0, rows);
    }
    return Stream.of();
  }

  /** Whether a number is more than that above another one; what is below 0 is above none. */
  private static boolean isAbove(long number, long ahead, long last) {
    return number > 0 && number - ahead > last;
  }

  /** The snapshots by which a history goes in a circle: one stands on itself, or a later one. */
  private static Stream<String> circles(TableMetadata base, List<Snapshot> added) {
    Set<Long> below = new HashSet<>();
    if (base != null && !added.isEmpty()) {
      base.snapshots().forEach(at -> below.add(at.parentId())); // of what is new nobody does
    }
    Set<Long> later = new HashSet<>();
    added.forEach(snapshot -> later.add(snapshot.snapshotId()));
    for (Snapshot snapshot : added) {
      if (later.contains(snapshot.parentId()) || below.contains(snapshot.snapshotId())) {
        return Stream.of("parent-snapshot-id " + snapshot.parentId());
      }
      later.remove(snapshot.snapshotId());
    }
    return Stream.of();
  }

  private static Stream<String> farIds(TableMetadata base, MetadataUpdate update) {
    List<String> found = new ArrayList<>();
    if (update instanceof MetadataUpdate.AddSchema add) {
      int last = base == null ? 0 : base.lastColumnId();
      if (add.schema().highestFieldId() > last + IDS_AHEAD_MAX) {
        found.add("column " + add.schema().highestFieldId());
      }
      if (base == null && add.schema().schemaId() > IDS_AHEAD_MAX) { // else it gets a free one
        found.add("schema-id " + add.schema().schemaId());
      }
    } else if (update instanceof MetadataUpdate.AddPartitionSpec add) {
      found.addAll(farPartitions(base == null ? List.of() : base.specs(), base, add.spec()));
    } else if (update instanceof MetadataUpdate.AddSortOrder add && base == null) {
      int order = json(SortOrderParser.toJson(add.sortOrder())).get("order-id").asInt();
      if (order > IDS_AHEAD_MAX) {
        found.add("order-id " + order);
      }
    }
    return found.stream();
  }

  /** The ids of a spec that nobody has given. */
  private static List<String> farPartitions(
      List<PartitionSpec> specs, TableMetadata base, UnboundPartitionSpec added) {
    String text = PartitionSpecParser.toJson(added);
    if (specs.stream().anyMatch(at -> PartitionSpecParser.toJson(at.toUnbound()).equals(text))) {
      return List.of();
    }
    List<String> found = new ArrayList<>();
    int newest = specs.stream().mapToInt(PartitionSpec::specId).reduce(0, Math::max);
    if (added.specId() > newest + IDS_AHEAD_MAX) {
      found.add("spec-id " + added.specId());
    }
    int last = Math.max(FIRST_PARTITION_ID, base == null ? 0 : base.lastAssignedPartitionId());
    Set<Integer> known = new HashSet<>();
    specs.forEach(at -> at.fields().stream().map(PartitionField::fieldId).forEach(known::add));
    for (JsonNode field : json(text).get("fields")) {
      int id = field.get("field-id").asInt();
      boolean near = id >= FIRST_PARTITION_ID && id <= last + IDS_AHEAD_MAX;
      if (!near && !known.contains(id)) {
        found.add("field-id " + id);
      }
    }
    return found;
  }

  private static JsonNode json(String text) {
    try {
      return JSON.readTree(text);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
