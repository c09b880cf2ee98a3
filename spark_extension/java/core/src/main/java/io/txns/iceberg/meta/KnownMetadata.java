package io.txns.iceberg.meta;

import java.lang.ref.SoftReference;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Map.Entry;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.io.FileIO;

/** The newest versions of tables that were read or written: their files never change. */
final class KnownMetadata {
  private static final int VERSIONS = 256;

  private final Map<String, SoftReference<TableMetadata>> byLocation =
      Collections.synchronizedMap(
          new LinkedHashMap<>(16, 0.75f, true) {
            @Override
            protected boolean removeEldestEntry(Entry<String, SoftReference<TableMetadata>> old) {
              return size() > VERSIONS;
            }
          });

  /** Keep what was read, or written; what has no file is nobody's version. */
  void add(TableMetadata metadata) {
    if (metadata.metadataFileLocation() != null) {
      byLocation.put(metadata.metadataFileLocation(), new SoftReference<>(metadata));
    }
  }

  TableMetadata read(FileIO io, String location) {
    SoftReference<TableMetadata> kept = byLocation.get(location);
    TableMetadata known = kept == null ? null : kept.get();
    if (known == null) {
      known = TableMetadataParser.read(io, location);
      add(known);
    }
    return known;
  }
}
