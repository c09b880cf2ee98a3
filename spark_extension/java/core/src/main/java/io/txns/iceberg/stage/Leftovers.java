package io.txns.iceberg.stage;

import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Payloads;
import io.txns.iceberg.log.SupersededFiles;
import io.txns.iceberg.meta.Cleaning;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.Snapshot;

/**
 * Files that attempts to commit have written and that the entry does not need: payloads of lost
 * attempts, manifests of appends that were restaged.
 *
 * <p>Removed only when the outcome is known: what an attempt may still land with stays.
 */
public final class Leftovers {
  /** How long after it was written an attempt may refer to a payload file, in ms. */
  public static final long STANDS_MS = 5 * 60 * 1000L;

  private final CommitLog log;
  private final Writes writes;

  /** Payload files that attempts have written, and when in ms. */
  private final Map<String, Long> payloads = new LinkedHashMap<>();

  /** The one that was written last, by the name that its bytes are to have. */
  private final Map<String, String> newest = new HashMap<>();

  private final List<StagedTable> restaged = new ArrayList<>();
  private boolean anotherTry;

  public Leftovers(CommitLog log) {
    this(log, new Writes());
  }

  /**
   * @param writes tells which data files are the transaction's own
   */
  public Leftovers(CommitLog log, Writes writes) {
    this.log = log;
    this.writes = writes;
  }

  /**
   * Keep the payload of an attempt where the specification wants it, inline or in a file.
   *
   * <p>A file that an earlier attempt has written may be that of an entry: it has the same name
   * only if it has the same bytes, and is not written again. One that was written so long ago that
   * somebody may take it for nobody's (docs/spec.md, 10) is not referred to any more: the same
   * bytes get a file of another name.
   */
  public Entry.Payload store(Head head, String txnId, String json, long nowMs) {
    Entry.Payload payload = Payloads.placed(head.metadata().location(), txnId, json);
    if (payload.location() == null) {
      return payload;
    }
    String location = newest.getOrDefault(payload.location(), payload.location());
    Long writtenMs = payloads.get(location);
    if (writtenMs != null && nowMs - writtenMs >= STANDS_MS) {
      writtenMs = null;
      location = Payloads.again(payload.location(), payloads.size());
    }
    if (writtenMs == null) {
      write(location, json, head);
      payloads.put(location, nowMs);
      newest.put(payload.location(), location);
    }
    return new Entry.Payload(payload.inline(), location, payload.sha256());
  }

  private void write(String location, String json, Head head) {
    try {
      Payloads.write(log.io(), location, json, head::atWork);
    } catch (RuntimeException e) {
      remove(location); // a part of it may be there
      throw e;
    }
  }

  /** One of several versions of a staged table, of which at most one is committed. */
  public void versionOf(StagedTable table) {
    if (!restaged.contains(table)) {
      restaged.add(table);
    }
  }

  /** The transaction has not committed; what it staged itself is its own affair. */
  public void removeAllBut(Collection<StagedTable> originals) {
    payloads.keySet().forEach(this::remove);
    restaged.stream()
        .filter(table -> !originals.contains(table))
        .forEach(table -> StagedFiles.metadataOf(table).delete());
    payloads.clear();
    newest.clear();
    restaged.clear();
  }

  /** Whether what has committed was made by another try under the same id: nothing is needed. */
  public boolean areOfAnotherTry() {
    return anotherTry;
  }

  /** The transaction has committed as {@code entry}. */
  public void removeAllBut(Entry entry, Collection<StagedTable> originals) {
    Set<Long> committed =
        entry.changes().stream().map(Change::toSnapshotId).collect(Collectors.toSet());
    anotherTry =
        Stream.concat(originals.stream(), restaged.stream())
            .noneMatch(table -> isOn(table, committed));
    payloads.remove(entry.payload().location());
    if (!entry.payload().equals(Entry.Payload.NONE)) {
      payloads.keySet().forEach(this::remove);
    } else if (!SupersededFiles.endsMinute(entry.commitTs(), log.newest().upper())) {
      // Archived, or born applied: heads of before may name one of them.
      payloads.keySet().forEach(log::supersede);
    }
    restaged.stream()
        .filter(table -> isOn(table, committed) && !originals.contains(table))
        .forEach(table -> removeWhatPassed(table, originals));
    restaged.stream()
        .filter(table -> !isOn(table, committed))
        .forEach(table -> StagedFiles.metadataOf(table).delete());
  }

  /** What came and went within what is one operation now, as the manifests tell that go next. */
  private void removeWhatPassed(StagedTable made, Collection<StagedTable> originals) {
    originals.stream()
        .filter(one -> one.identifier().equals(made.identifier()) && !one.isAppendOnly())
        .forEach(one -> StagedFiles.passing(one, made, writes).delete());
  }

  /** Whether main stands on one of some snapshots; it may have none, before it is completed. */
  private static boolean isOn(StagedTable table, Set<Long> snapshots) {
    Snapshot main = table.current().currentSnapshot();
    return main != null && snapshots.contains(main.snapshotId());
  }

  private void remove(String location) {
    Cleaning.of(location, () -> log.io().deleteFile(location));
  }
}
