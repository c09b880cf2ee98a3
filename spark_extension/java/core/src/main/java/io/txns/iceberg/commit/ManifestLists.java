package io.txns.iceberg.commit;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.AddedSnapshots;
import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.table.Replay;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Optional;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * Whether the manifest lists are there that a logged change puts into its table (docs/spec.md 8.1).
 *
 * <p>Somebody may have removed them, and a record may name what never was, or another file of the
 * table's: with such a list on {@code main} no engine reads the table any more.
 */
final class ManifestLists {
  /** For how long what this process has written needs no look: orphans are days old. */
  private static final long OWN_FOR_MS = 3_600_000;

  /** How many entries of its own a process knows by heart, each with its payload. */
  private static final int OWN_MAX = 64;

  /** In which an Avro file has its schema. */
  private static final int HEAD_BYTES = 1 << 16;

  /** The path of a manifest, in the schema of a manifest list. */
  private static final Pattern LISTED = Pattern.compile("\"field-id\"\\s*:\\s*500\\b");

  private final TxnClock clock;
  private volatile List<Entry> own = List.of();

  ManifestLists(TxnClock clock) {
    this.clock = clock;
  }

  /** Note an entry that this process has committed, with lists that it has written. */
  synchronized void wrote(Entry entry) {
    long tooMany = Math.max(0, own.size() + 1 - OWN_MAX);
    own = Stream.concat(own.stream().skip(tooMany), Stream.of(entry)).toList();
  }

  /**
   * Refuse a change of which a manifest list is not there.
   *
   * @param table the name that the table has now
   * @param io the table's files
   * @param request the change's payload
   * @param always those of its lists that are looked for even if this process has written them
   * @throws TxnException Quarantined, with the command that takes the entry away
   * @throws RuntimeException of the storage, which does not say whether a list is there
   */
  void refuseMissing(
      TableIdentifier table,
      FileIO io,
      LoggedChange logged,
      UpdateTableRequest request,
      String... always) {
    Stream<String> lists = isOwn(logged.entry()) ? Stream.of(always) : of(request);
    Optional<String> gone = firstMissing(io, lists);
    if (gone.isEmpty()) {
      return;
    }
    String adopt =
        String.format(
            ", then CALL system.repair(table => '%s', action => 'adopt') takes the table as it"
                + " stands",
            table);
    throw TxnException.quarantined(
        table,
        String.format(
            "a logged change adds a snapshot whose manifest list is not there, or is no list, and is"
                + " not carried out: somebody has removed it, as orphan removals, expiries and"
                + " purges outside the protocol do, or nobody has written it; file=`%s`",
            gone.get()),
        String.format(
            "put the file back, or `txns recover --void %d` takes the entry out of the log%s; where"
                + " nobody has removed it, look who has written the commit table: whoever may is"
                + " trusted",
            logged.commitTs(), Replay.creates(request) ? "" : adopt));
  }

  /** Whether all lists of a change are there. */
  static boolean areThere(FileIO io, UpdateTableRequest request) {
    return firstMissing(io, of(request)).isEmpty();
  }

  /** Whether it is the very entry: one that was forged in its place has other bytes. */
  private boolean isOwn(Entry entry) {
    return clock.nowMs() - entry.commitTs() < OWN_FOR_MS && own.contains(entry);
  }

  private static Stream<String> of(UpdateTableRequest request) {
    return AddedSnapshots.of(request.updates()).stream().map(Snapshot::manifestListLocation);
  }

  private static Optional<String> firstMissing(FileIO io, Stream<String> lists) {
    return lists
        .filter(path -> LocalPermissions.isMissing(io, path) || !isList(io, path))
        .findFirst();
  }

  /**
   * Whether a file begins as a manifest list does: an Avro file whose records have field 500; what
   * is encrypted shows nothing.
   */
  private static boolean isList(FileIO io, String path) {
    try (InputStream file = io.newInputFile(path).newStream()) {
      String head = new String(file.readNBytes(HEAD_BYTES), StandardCharsets.ISO_8859_1);
      return head.startsWith("AGS1") || head.startsWith("Obj\u0001") && LISTED.matcher(head).find();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
