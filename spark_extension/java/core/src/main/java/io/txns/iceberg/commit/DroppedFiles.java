package io.txns.iceberg.commit;

import io.txns.iceberg.log.CommitTable;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.Payloads;
import io.txns.iceberg.log.SupersededFiles;
import io.txns.iceberg.meta.ReachedFiles;
import java.nio.ByteBuffer;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.types.Conversions;
import org.apache.iceberg.types.Types;

/**
 * Which files of the commit table a tidy leaves behind that no kept version names.
 *
 * <p>Of each file it is asked from which upper on versions may have named it, or from one before: a
 * file that lives on for a minute too much harms nobody.
 */
final class DroppedFiles {
  private static final int COMMIT_TS_ID = CommitTable.SCHEMA.findField("commit_ts").fieldId();

  private DroppedFiles() {}

  /** The payloads' files of entries that leave, but for those that another one names, too. */
  static Stream<String> payloads(LogState state, List<Entry> done, String location) {
    Set<String> needed =
        state.entries().stream()
            .filter(entry -> !done.contains(entry))
            .map(entry -> entry.payload().location())
            .collect(Collectors.toSet());
    return done.stream()
        .filter(entry -> !SupersededFiles.endsMinute(entry.commitTs(), state.upper()))
        .map(entry -> entry.payload().location())
        .filter(path -> path != null && !needed.contains(path))
        .filter(path -> Payloads.isAtItsPlace(path, location));
  }

  /**
   * Manifest lists, manifests and files that nothing in the next head points to.
   *
   * <p>Of those that records name, the commit table's own alone: anybody may write a path there.
   *
   * @param upper of both heads, in ms
   */
  static Set<String> of(TableMetadata base, TableMetadata next, long upper, FileIO io) {
    Set<String> dropped = new TreeSet<>();
    since(base, next, upper, io)
        .forEach(
            (path, ts) -> {
              if (CommitTable.isItsOwn(path, base.location())
                  && !SupersededFiles.endsMinute(ts, upper)) {
                dropped.add(path);
              }
            });
    return dropped;
  }

  /** Lists, manifests and files that the next head does not reach, and since when others have. */
  private static Map<String, Long> since(
      TableMetadata base, TableMetadata next, long upper, FileIO io) {
    Map<String, Long> since = listsSince(base);
    next.snapshots().forEach(at -> since.remove(at.manifestListLocation()));
    if (since.values().stream().allMatch(ts -> SupersededFiles.endsMinute(ts, upper))) {
      return since; // nothing that stands behind a list is younger
    }
    ReachedFiles.Only only = ReachedFiles.onlyOf(base, next, io);
    only.byList()
        .forEach(
            (list, held) -> {
              for (ReachedFiles.Held each : held) {
                since.put(each.manifest().path(), manifestSince(base, since.get(list), each));
                each.files().stream()
                    .filter(file -> !only.still().contains(file.location()))
                    .forEach(file -> since.put(file.location(), greatest(List.of(file))));
              }
            });
    return since;
  }

  /**
   * By each list of a head, an upper in ms that it is not older than: all records with one list say
   * how far he had tidied who has written it.
   */
  private static Map<String, Long> listsSince(TableMetadata base) {
    Map<String, Long> since = new HashMap<>();
    for (Snapshot at : base.snapshots()) {
      String stored = at.summary() == null ? null : at.summary().get(EntryParser.TIDIED_UPTO);
      long ts = stored == null ? 0 : Long.parseLong(stored);
      since.merge(at.manifestListLocation(), ts, Math::min);
    }
    return since;
  }

  /** A manifest without files only says what was removed: of the rows it has nothing. */
  private static long manifestSince(TableMetadata base, long ofList, ReachedFiles.Held held) {
    if (!held.files().isEmpty()) {
      return greatest(held.files());
    }
    Long writer = held.manifest().snapshotId();
    return writer != null && base.snapshot(writer) != null ? ofList : 0;
  }

  /** The greatest {@code commit_ts} of the rows of files, which were in the log before; or 0. */
  private static long greatest(List<DataFile> files) {
    long greatest = 0;
    for (DataFile file : files) {
      ByteBuffer bound = file.upperBounds() == null ? null : file.upperBounds().get(COMMIT_TS_ID);
      long ts = bound == null ? 0 : Conversions.fromByteBuffer(Types.LongType.get(), bound);
      greatest = Math.max(greatest, ts);
    }
    return greatest;
  }
}
