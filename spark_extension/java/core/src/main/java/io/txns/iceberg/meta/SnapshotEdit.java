package io.txns.iceberg.meta;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.io.FileIO;

/**
 * A snapshot with other fields.
 *
 * <p>Iceberg's snapshots are immutable and their class is not public; their JSON is both.
 */
public final class SnapshotEdit {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String PARENT = "parent-snapshot-id";

  private final ObjectNode node;

  private SnapshotEdit(ObjectNode node) {
    this.node = node;
  }

  public static SnapshotEdit of(Snapshot snapshot) {
    try {
      return new SnapshotEdit((ObjectNode) JSON.readTree(SnapshotParser.toJson(snapshot, false)));
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Iceberg wrote a snapshot that is not JSON", e);
    }
  }

  /** A snapshot from nothing: the caller sets every field that it needs. */
  public static SnapshotEdit create(long snapshotId, String operation) {
    ObjectNode node = JSON.createObjectNode();
    node.put("snapshot-id", snapshotId);
    node.putObject("summary").put("operation", operation);
    return new SnapshotEdit(node);
  }

  public SnapshotEdit parent(Long parentId) {
    if (parentId == null) {
      node.remove(PARENT);
    } else {
      node.put(PARENT, parentId);
    }
    return this;
  }

  public SnapshotEdit sequenceNumber(long sequenceNumber) {
    node.put("sequence-number", sequenceNumber);
    return this;
  }

  public SnapshotEdit timestampMs(long timestampMs) {
    node.put("timestamp-ms", timestampMs);
    return this;
  }

  public SnapshotEdit manifestList(String location) {
    node.put("manifest-list", location);
    return this;
  }

  /**
   * Write a manifest list of its own for it, and give it that and the numbers that the list has.
   *
   * @param formatVersion the table's
   * @param firstRowId the first row id that it may hand out; format 3 only, otherwise null
   * @param manifests what it lists; what the snapshot itself added gets its sequence number
   */
  public SnapshotEdit listed(
      FileIO io,
      String location,
      int formatVersion,
      long sequenceNumber,
      Long firstRowId,
      List<ManifestFile> manifests) {
    return listed(io, location, formatVersion, sequenceNumber, firstRowId, manifests, Map.of());
  }

  /**
   * The same.
   *
   * @param rowIds first row ids that manifests have by now, by their paths; null where they have
   *     none yet, whatever they say themselves
   */
  public SnapshotEdit listed(
      FileIO io,
      String location,
      int formatVersion,
      long sequenceNumber,
      Long firstRowId,
      List<ManifestFile> manifests,
      Map<String, Long> rowIds) {
    Long parentId = node.has(PARENT) ? (Long) node.get(PARENT).asLong() : null;
    long rows =
        ManifestLists.write(
            LocalWrites.through(io).newOutputFile(location),
            formatVersion,
            node.get("snapshot-id").asLong(),
            parentId,
            sequenceNumber,
            firstRowId,
            manifests,
            rowIds);
    if (firstRowId != null) {
      rows(firstRowId, rows);
    }
    return sequenceNumber(sequenceNumber).manifestList(location);
  }

  public SnapshotEdit schemaId(Integer schemaId) {
    if (schemaId != null) {
      node.put("schema-id", schemaId);
    }
    return this;
  }

  /** Row lineage of format 3: the first row id and how many row ids are taken. */
  public SnapshotEdit rows(long firstRowId, long addedRows) {
    node.put("first-row-id", firstRowId);
    node.put("added-rows", addedRows);
    return this;
  }

  public SnapshotEdit operation(String operation) {
    ((ObjectNode) node.get("summary")).put("operation", operation);
    return this;
  }

  public SnapshotEdit summary(Map<String, String> more) {
    ObjectNode summary = (ObjectNode) node.get("summary");
    more.forEach(summary::put);
    return this;
  }

  /** Without some keys of its summary. */
  public SnapshotEdit without(Set<String> keys) {
    ((ObjectNode) node.get("summary")).remove(keys);
    return this;
  }

  public Snapshot build() {
    return SnapshotParser.fromJson(node.toString());
  }
}
