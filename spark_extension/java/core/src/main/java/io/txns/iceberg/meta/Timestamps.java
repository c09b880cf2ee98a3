package io.txns.iceberg.meta;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.TxnClock;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.UnaryOperator;
import java.util.regex.Pattern;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadata.MetadataLogEntry;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.hadoop.HadoopTableOperations;

/**
 * The times in a table's metadata (docs/spec.md, 8.3).
 *
 * <p>Iceberg cannot load a table whose times go back by more than a minute. So what a table has
 * beats every clock: a fast one may have written it, a slow one may be ours. Iceberg's builder
 * stamps what it makes with the system's clock, and refuses that where the table is ahead of it.
 */
public final class Timestamps {
  /** Iceberg tolerates a minute; a second is kept in hand. */
  private static final long TOLERANCE_MS = 59_000;

  private static final String AT = "timestamp-ms";
  private static final String UPDATED = "last-updated-ms";
  private static final String SNAPSHOTS = "snapshot-log";
  private static final String FILES = "metadata-log";
  private static final Pattern UPDATED_MS = Pattern.compile("(\"" + UPDATED + "\":)\\d+");
  private static final ObjectMapper JSON = new ObjectMapper();

  private Timestamps() {}

  /**
   * A {@code commit_ts}, or the nearest time that Iceberg accepts for a snapshot on main.
   *
   * @param base null for a table that is created
   */
  public static long acceptableMs(TableMetadata base, long commitTs, long clockMs) {
    long wanted = Math.min(commitTs, nowMs(clockMs) + TOLERANCE_MS);
    return base == null ? wanted : following(lastMs(base), wanted);
  }

  /** A time that Iceberg accepts after another one, else the next one. */
  private static long following(long lastMs, long wantedMs) {
    return wantedMs < lastMs - TOLERANCE_MS ? lastMs + 1 : wantedMs;
  }

  /** The newest time in a table's metadata, below which it must not fall. */
  public static long newestMs(TableMetadata metadata) {
    return Math.max(metadata.lastUpdatedMillis(), lastMs(metadata));
  }

  /** The last entry of main's history, which alone counts for a snapshot: the rest is stamped. */
  private static long lastMs(TableMetadata metadata) {
    List<HistoryEntry> log = metadata.snapshotLog();
    return log.isEmpty() ? 0 : log.get(log.size() - 1).timestampMillis();
  }

  /** Whether Iceberg, which stamps what it builds with the clock, would refuse to build on it. */
  public static boolean isAhead(TableMetadata base, long clockMs) {
    return newestMs(base) > nowMs(clockMs) + TOLERANCE_MS;
  }

  /** A table as one can build on it: times that are still to come are now. */
  public static TableMetadata notAhead(TableMetadata base, long clockMs) {
    if (!isAhead(base, clockMs)) {
      return base;
    }
    long nowMs = nowMs(clockMs);
    ObjectNode node = json(base);
    cap(node, UPDATED, nowMs);
    node.withArray(SNAPSHOTS).forEach(entry -> cap((ObjectNode) entry, AT, nowMs));
    node.withArray(FILES).forEach(entry -> cap((ObjectNode) entry, AT, nowMs));
    return parsed(base.metadataFileLocation(), node);
  }

  /** Commit what {@code next} makes of a data table, also of one that is ahead of this clock. */
  public static void commit(
      TableOperations real, TableMetadata base, long clockMs, UnaryOperator<TableMetadata> next) {
    TableMetadata seen = notAhead(base, clockMs);
    TableMetadata updated = next.apply(seen);
    if (seen == base && writesFiles(real)) {
      real.commit(base, updated);
    } else {
      commitFollowing(real, base, updated);
    }
  }

  private static boolean writesFiles(TableOperations real) {
    return real instanceof BaseMetastoreTableOperations || real instanceof HadoopTableOperations;
  }

  /**
   * Commit metadata whose times follow those of the table and no clock.
   *
   * <p>Operations that write it to a file write these. A server makes metadata of its own from the
   * changes. Iceberg's stamps it with its clock, others with the newest time of the snapshots that
   * are added: these follow the newest time of the table.
   *
   * @param base the table as it is
   * @param updated built on {@link #notAhead} of it
   */
  public static void commitFollowing(
      TableOperations real, TableMetadata base, TableMetadata updated) {
    real.commit(base, writesFiles(real) ? after(base, updated) : retimed(base, updated));
  }

  /** The same changes to the table as it is, by snapshots that follow its times. */
  private static TableMetadata retimed(TableMetadata base, TableMetadata updated) {
    TableMetadata.Builder builder = TableMetadata.buildFrom(base);
    if (updated.lastUpdatedMillis() < newestMs(base) - TOLERANCE_MS) {
      // The clock is late: this stamps it with the time of its base.
      builder.withMetadataLocation(null).setPreviousFileLocation(base.metadataFileLocation());
    }
    for (MetadataUpdate change : updated.changes()) {
      if (change instanceof MetadataUpdate.AddSnapshot add) {
        long timeMs = following(newestMs(base), add.snapshot().timestampMillis());
        builder.addSnapshot(SnapshotEdit.of(add.snapshot()).timestampMs(timeMs).build());
      } else {
        change.applyTo(builder);
      }
    }
    return builder.build();
  }

  /** The same metadata with the times that {@code base} has, and such that follow them. */
  private static TableMetadata after(TableMetadata base, TableMetadata updated) {
    OptionalLong newestMs = newestIfFollowing(base, updated);
    return newestMs.isPresent() ? updatedAt(updated, newestMs.getAsLong()) : stamped(base, updated);
  }

  /**
   * The same metadata updated at another time. Iceberg has no way to say so, and a tree of its JSON
   * takes three times as long as text, in which the first such key is the metadata's own: only its
   * location comes before, where a quote is escaped.
   */
  private static TableMetadata updatedAt(TableMetadata updated, long newestMs) {
    String json = TableMetadataParser.toJson(updated);
    return TableMetadataParser.fromJson(
        null, UPDATED_MS.matcher(json).replaceFirst("$1" + newestMs));
  }

  private static TableMetadata stamped(TableMetadata base, TableMetadata updated) {
    ObjectNode before = json(base);
    ObjectNode node = json(updated);
    Deque<JsonNode> known = new ArrayDeque<>();
    before.withArray(SNAPSHOTS).forEach(known::add);
    long lastMs = lastMs(base);
    for (JsonNode entry : node.withArray(SNAPSHOTS)) {
      long id = entry.get("snapshot-id").asLong();
      while (!known.isEmpty() && known.peek().get("snapshot-id").asLong() != id) {
        known.poll(); // it left the log with its snapshot
      }
      if (known.isEmpty()) {
        lastMs = follow((ObjectNode) entry, lastMs);
        long timeMs = entry.get(AT).asLong();
        node.withArray("snapshots")
            .forEach(
                at -> {
                  if (at.get("snapshot-id").asLong() == id && base.snapshot(id) == null) {
                    ((ObjectNode) at).put(AT, timeMs);
                  }
                });
      } else {
        ((ObjectNode) entry).put(AT, known.poll().get(AT).asLong());
      }
    }
    node.put(UPDATED, Math.max(lastMs, base.lastUpdatedMillis()));
    Map<String, JsonNode> files = new HashMap<>();
    before.withArray(FILES).forEach(file -> files.put(file.get("metadata-file").asText(), file));
    for (JsonNode file : node.withArray(FILES)) {
      JsonNode old = files.get(file.get("metadata-file").asText());
      ((ObjectNode) file).put(AT, old == null ? base.lastUpdatedMillis() : old.get(AT).asLong());
    }
    return parsed(null, node);
  }

  /**
   * The newest time of metadata whose history and files have the times of a base, and such that
   * follow them, as Iceberg's builder has stamped them; empty where it has not.
   */
  private static OptionalLong newestIfFollowing(TableMetadata base, TableMetadata updated) {
    Deque<HistoryEntry> known = new ArrayDeque<>(base.snapshotLog());
    long lastMs = lastMs(base);
    for (HistoryEntry entry : updated.snapshotLog()) {
      while (!known.isEmpty() && known.peek().snapshotId() != entry.snapshotId()) {
        known.poll();
      }
      long timeMs = entry.timestampMillis();
      boolean added = known.isEmpty();
      if (added ? !follows(updated, entry, lastMs) : timeMs != known.poll().timestampMillis()) {
        return OptionalLong.empty();
      }
      lastMs = added ? Math.max(lastMs, timeMs) : lastMs;
    }
    return haveTimesOf(base, updated.previousFiles())
        ? OptionalLong.of(Math.max(lastMs, base.lastUpdatedMillis()))
        : OptionalLong.empty();
  }

  private static boolean follows(TableMetadata updated, HistoryEntry entry, long lastMs) {
    Snapshot snapshot = updated.snapshot(entry.snapshotId());
    long timeMs = entry.timestampMillis();
    return timeMs == following(lastMs, timeMs)
        && snapshot != null
        && snapshot.timestampMillis() == timeMs;
  }

  private static boolean haveTimesOf(TableMetadata base, List<MetadataLogEntry> files) {
    Map<String, Long> times = new HashMap<>();
    base.previousFiles().forEach(file -> times.put(file.file(), file.timestampMillis()));
    return files.stream()
        .allMatch(
            file ->
                file.timestampMillis()
                    == times.getOrDefault(file.file(), base.lastUpdatedMillis()));
  }

  /** Have an entry follow a time; give the newest of the two. */
  private static long follow(ObjectNode entry, long lastMs) {
    entry.put(AT, following(lastMs, entry.get(AT).asLong()));
    return Math.max(lastMs, entry.get(AT).asLong());
  }

  /** Iceberg's own clock is the system's, wherever ours has been moved to. */
  private static long nowMs(long clockMs) {
    return Math.min(clockMs, TxnClock.system().nowMs());
  }

  private static void cap(ObjectNode node, String key, long nowMs) {
    node.put(key, Math.min(node.get(key).asLong(), nowMs));
  }

  private static ObjectNode json(TableMetadata metadata) {
    try {
      return (ObjectNode) JSON.readTree(TableMetadataParser.toJson(metadata));
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Iceberg wrote metadata that is not JSON", e);
    }
  }

  private static TableMetadata parsed(String location, ObjectNode node) {
    return TableMetadataParser.fromJson(location, node.toString());
  }
}
