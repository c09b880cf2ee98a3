package io.txns.iceberg.admin;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.meta.Places;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.ManifestFiles;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.io.CloseableIterable;

/**
 * Files below a table's location that another table of the catalog uses. Locations go by names in
 * most catalogs: after a rename two tables lie in one place, and somebody who may write the log can
 * give a table the place of another one (docs/spec.md, 6.8).
 */
final class SharedFiles {
  private static final TxnLogger LOG = TxnLogger.of(SharedFiles.class);

  private SharedFiles() {}

  /**
   * The files that tables use whose places and a location lie in each other, or are one.
   *
   * @param table the one that is left out
   * @param location its
   * @return paths as {@link Places#plain} writes them
   * @throws TxnException Unsupported where another table cannot be loaded, though it is there
   */
  static Set<String> usedByOthers(Catalog catalog, TableIdentifier table, String location) {
    Set<String> used = new HashSet<>();
    for (TableIdentifier other : tables(catalog)) {
      TableOperations real = other.equals(table) ? null : load(catalog, other, table);
      if (real != null && roots(real.current()).anyMatch(root -> overlap(root, location))) {
        files(real).forEach(path -> used.add(Places.plain(path)));
      }
    }
    return used;
  }

  private static List<TableIdentifier> tables(Catalog catalog) {
    List<TableIdentifier> tables = new ArrayList<>();
    if (catalog instanceof SupportsNamespaces namespaces) {
      Deque<Namespace> waiting = new ArrayDeque<>(namespaces.listNamespaces());
      while (!waiting.isEmpty()) {
        Namespace namespace = waiting.pop();
        tables.addAll(catalog.listTables(namespace));
        waiting.addAll(namespaces.listNamespaces(namespace));
      }
    } else {
      tables.addAll(catalog.listTables(Namespace.empty()));
    }
    return tables;
  }

  private static TableOperations load(Catalog catalog, TableIdentifier table, TableIdentifier own) {
    try {
      return ((BaseTable) LocalPermissions.load(catalog, table)).operations();
    } catch (NoSuchTableException | NotFoundException e) {
      return null; // its metadata is gone: nobody reads anything of it
    } catch (RuntimeException e) {
      LOG.warn(LogFields.of(table), "nobody can tell which files the table uses", e);
      throw TxnException.unsupported(
          String.format(
              "another table cannot be loaded, and may use files of this one, so nothing is"
                  + " deleted: run it again in 10 minutes, with the right to read that one, or take"
                  + " it out of the catalog; table=`%s` other=`%s`",
              own, table));
    }
  }

  private static Stream<String> roots(TableMetadata metadata) {
    return Stream.of(
            metadata.location(),
            metadata.property(TableProperties.WRITE_METADATA_LOCATION, null),
            metadata.property(TableProperties.WRITE_DATA_LOCATION, null))
        .filter(Objects::nonNull);
  }

  private static boolean overlap(String one, String other) {
    return Places.plain(one).equals(Places.plain(other))
        || Places.isBelow(one, other)
        || Places.isBelow(other, one);
  }

  /** All files that a table's metadata leads to. */
  private static Set<String> files(TableOperations real) {
    TableMetadata metadata = real.current();
    Set<String> files = new HashSet<>();
    files.add(metadata.metadataFileLocation());
    metadata.previousFiles().forEach(one -> files.add(one.file()));
    metadata.statisticsFiles().forEach(one -> files.add(one.path()));
    metadata.partitionStatisticsFiles().forEach(one -> files.add(one.path()));
    Map<String, ManifestFile> manifests = new HashMap<>();
    for (Snapshot snapshot : metadata.snapshots()) {
      files.add(snapshot.manifestListLocation());
      snapshot.allManifests(real.io()).forEach(one -> manifests.put(one.path(), one));
    }
    files.addAll(manifests.keySet());
    for (ManifestFile manifest : manifests.values()) {
      try (CloseableIterable<String> paths =
          ManifestFiles.readPaths(manifest, real.io(), metadata.specsById())) {
        paths.forEach(files::add);
      } catch (IOException e) {
        throw new UncheckedIOException("cannot read " + manifest.path(), e);
      }
    }
    return files;
  }
}
