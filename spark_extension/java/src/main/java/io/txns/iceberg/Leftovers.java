package io.txns.iceberg;

import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Files that attempts to commit have written and that the entry does not need: payloads of lost
 * attempts, manifests of appends that were restaged.
 *
 * <p>Removed only when the outcome is known.
 */
final class Leftovers {
  private static final Logger LOG = LoggerFactory.getLogger(Leftovers.class);

  private final CommitLog log;
  private final Set<String> payloads = new LinkedHashSet<>();
  private final List<StagedTable> restaged = new ArrayList<>();

  Leftovers(CommitLog log) {
    this.log = log;
  }

  void payload(Entry.Payload payload) {
    if (payload.location() != null) {
      payloads.add(payload.location());
    }
  }

  /** One of several versions of a staged table, of which at most one is committed. */
  void versionOf(StagedTable table) {
    if (!restaged.contains(table)) {
      restaged.add(table);
    }
  }

  /** The transaction has not committed; what it staged itself is its own affair. */
  void removeAllBut(Collection<StagedTable> originals) {
    payloads.forEach(this::remove);
    restaged.stream()
        .filter(table -> !originals.contains(table))
        .forEach(table -> StagedFiles.metadataOf(table).delete());
    payloads.clear();
    restaged.clear();
  }

  /** The transaction has committed as {@code entry}. */
  void removeAllBut(Entry entry) {
    payloads.remove(entry.payload().location());
    payloads.forEach(this::remove);
    Set<Long> committed =
        entry.changes().stream().map(Change::toSnapshotId).collect(Collectors.toSet());
    for (StagedTable table : restaged) {
      if (!committed.contains(table.current().currentSnapshot().snapshotId())) {
        StagedFiles.metadataOf(table).delete();
      }
    }
  }

  private void remove(String location) {
    try {
      log.io().deleteFile(location);
    } catch (RuntimeException e) {
      LOG.warn("a payload of a lost attempt stays: {}", location, e);
    }
  }
}
