package io.txns.iceberg.meta;

import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.WeakHashMap;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.io.FileIO;

/**
 * The newest versions of tables that were read or written: their files never change. Those share it
 * whose catalogs have the same options, and so the same files and rights.
 */
public final class KnownMetadata {
  /** How many snapshots the versions that are kept have together: each is some 3 KB. */
  private static final int SNAPSHOTS = 10_000;

  /** Those that somebody has, perhaps more, and the options of their catalogs. */
  private static final Map<KnownMetadata, Map<String, String>> SHARED = new WeakHashMap<>();

  private final Map<String, TableMetadata> byLocation = new LinkedHashMap<>(16, 0.75f, true);
  private int snapshots;

  /** What all catalogs with some options share. */
  static KnownMetadata of(Map<String, String> options) {
    synchronized (SHARED) {
      for (Map.Entry<KnownMetadata, Map<String, String>> known : SHARED.entrySet()) {
        if (known.getValue().equals(options)) {
          return known.getKey();
        }
      }
      KnownMetadata known = new KnownMetadata();
      SHARED.put(known, Map.copyOf(options));
      return known;
    }
  }

  /** Keep what was read; what has no file is nobody's version. */
  public synchronized void add(TableMetadata metadata) {
    String location = metadata.metadataFileLocation();
    if (location == null || size(metadata) > SNAPSHOTS || byLocation.get(location) != null) {
      return;
    }
    byLocation.put(location, metadata);
    snapshots += size(metadata);
    Iterator<TableMetadata> oldest = byLocation.values().iterator();
    while (snapshots > SNAPSHOTS) {
      snapshots -= size(oldest.next());
      oldest.remove();
    }
  }

  /** What it counts for, in snapshots; a column of a schema is as large, or larger. */
  private static int size(TableMetadata metadata) {
    return 1 + metadata.snapshots().size() + metadata.schemas().size() * metadata.lastColumnId();
  }

  TableMetadata read(FileIO io, String location) {
    TableMetadata known = kept(location);
    if (known == null) {
      known = TableMetadataParser.read(io, location);
      add(known);
    }
    return known;
  }

  private synchronized TableMetadata kept(String location) {
    return byLocation.get(location);
  }
}
