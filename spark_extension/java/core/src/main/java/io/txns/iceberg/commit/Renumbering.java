package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.MergedManifests;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.table.Replay;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * How snapshots of a change take new numbers, with manifest lists of their own in storage
 * (docs/spec.md 8.2).
 *
 * @param request what carries the change out
 * @param real the table that the change is applied to
 * @param repaired whether a repair is logged after it
 */
record Renumbering(
    TxnClock clock,
    LoggedChange change,
    UpdateTableRequest request,
    TableOperations real,
    boolean repaired)
    implements Replay.Renumber {
  /** The parent may have been renumbered after this one was staged on it. */
  @Override
  public boolean hasOtherRowIds(Snapshot parent, Snapshot staged) {
    Map<String, Long> ids = rowIds(parent);
    return rowIds(staged).entrySet().stream()
        .anyMatch(
            listed ->
                ids.containsKey(listed.getKey())
                    && !ids.get(listed.getKey()).equals(listed.getValue()));
  }

  @Override
  public Snapshot renumbered(Snapshot parent, Snapshot staged, Replay.Numbers numbers) {
    refuseMaterialisedRowIds(staged, numbers);
    String name = "snap-%d-%d-%s.avro";
    String location =
        real.metadataFileLocation(
            String.format(name, staged.snapshotId(), numbers.sequenceNumber(), clock.newTxnId()));
    return SnapshotEdit.of(staged)
        .listed(
            real.io(),
            location,
            numbers.formatVersion(),
            numbers.sequenceNumber(),
            numbers.firstRowId(),
            staged.allManifests(real.io()),
            numbers.firstRowId() == null ? Map.of() : rowIdsNow(parent, staged))
        .build();
  }

  /**
   * What the parent has is as it has it there. What the staged snapshot gave to manifests of before
   * the table's upgrade was not the table's to give: it was taken since.
   */
  private Map<String, Long> rowIdsNow(Snapshot parent, Snapshot staged) {
    Map<String, Long> ids = new HashMap<>();
    rowIds(staged).forEach((path, id) -> ids.put(path, id < staged.firstRowId() ? id : null));
    ids.putAll(rowIds(parent));
    return ids;
  }

  /** The first row ids of a snapshot's manifests, by their paths; none where it is null. */
  private Map<String, Long> rowIds(Snapshot snapshot) {
    return snapshot == null
        ? Map.of()
        : snapshot.dataManifests(real.io()).stream()
            .filter(manifest -> manifest.firstRowId() != null)
            .collect(
                Collectors.toMap(ManifestFile::path, ManifestFile::firstRowId, (one, same) -> one));
  }

  /**
   * On format 3 a statement that rewrites rows of an earlier one of its transaction, or merges
   * their manifests, writes their row ids into files: such a run takes no others, unless a repair
   * has decided that its rows count more than their ids.
   */
  private void refuseMaterialisedRowIds(Snapshot staged, Replay.Numbers numbers) {
    if (repaired
        || staged.firstRowId() == null
        || staged.firstRowId().equals(numbers.firstRowId())) {
      return;
    }
    List<Snapshot> all = AddedSnapshots.of(request.updates());
    boolean appends = all.stream().allMatch(one -> DataOperations.APPEND.equals(one.operation()));
    Stream<Snapshot> later = all.stream().skip(1); // what the first one stood on was applied
    if (all.size() > 1
        && (!appends || later.anyMatch(one -> MergedManifests.areIn(one, real.io())))) {
      throw TxnException.quarantined(
          change.change().table(), "row ids of format 3 in its files are taken by somebody else");
    }
  }
}
