package io.txns.iceberg.fuzz;

import com.fasterxml.jackson.databind.JsonNode;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.FuzzedLog;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.meta.History;
import io.txns.iceberg.stage.KeptTags;
import io.txns.iceberg.table.ForeignBranches;
import io.txns.iceberg.table.LoggedState;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.OutstandingBranch;
import io.txns.iceberg.table.Overlay;
import io.txns.iceberg.table.Replay;
import io.txns.iceberg.table.Stranger;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** What readers and appliers make of a data table, of one input of the fuzzer. */
final class FuzzedTables {
  private static final TableIdentifier TABLE = TableIdentifier.of("shop", "a");
  private static final long NOW_MS = 1767265400000L;
  private static final long LATE_TS = 1L << 62;

  private FuzzedTables() {}

  /** The mark of a table, where the log left it, and who has been there since. */
  static String mark(TableMetadata metadata) {
    Optional<TableMark> mark = TableMark.of(metadata);
    TableMark care =
        mark.orElseGet(() -> new TableMark(FuzzedLog.COMMITS, "", 0, TableMark.applied(metadata)));
    return Line.of(
        mark.isPresent(),
        Line.orError(() -> state(LoggedState.of(metadata, care))),
        care.created(),
        OurSnapshots.haveBeenIn(metadata),
        Line.orError(() -> tidied(metadata)));
  }

  private static String state(LoggedState state) {
    List<Object> parts = new ArrayList<>();
    parts.add(state.snapshot() == null ? null : state.snapshot().snapshotId());
    state
        .stranger()
        .ifPresent(
            found -> {
              parts.add(found.headSnapshotId());
              parts.add(Line.list(found.snapshotIds()));
              parts.add(found.adoptable());
              parts.add(Line.list(found.below()));
            });
    return Line.of(parts.toArray());
  }

  private static String tidied(TableMetadata metadata) {
    TableMetadata.Builder tags = TableMetadata.buildFrom(metadata);
    KeptTags.removeDone(tags, metadata);
    List<String> gone = new ArrayList<>(metadata.refs().keySet());
    gone.removeAll(built(tags).refs().keySet());
    TableMetadata.Builder copies = TableMetadata.buildFrom(metadata);
    OutstandingBranch.removeDone(copies, metadata, LATE_TS);
    List<String> left = new ArrayList<>(built(copies).refs().keySet());
    List<String> branches =
        metadata.refs().entrySet().stream()
            .filter(ref -> !ref.getKey().equals(SnapshotRef.MAIN_BRANCH))
            .filter(ref -> Stranger.above(metadata, ref.getValue().snapshotId()).isPresent())
            .map(ref -> ref.getKey())
            .sorted(Line.BY_CODE_POINT)
            .toList();
    left.remove(SnapshotRef.MAIN_BRANCH); // pyiceberg makes one where there is none
    gone.sort(Line.BY_CODE_POINT);
    left.sort(Line.BY_CODE_POINT);
    return Line.of(Line.list(gone), Line.list(left), Line.list(branches));
  }

  /** Where Iceberg loads a table and cannot change it, nobody writes it. */
  private static TableMetadata built(TableMetadata.Builder changed) {
    try {
      return changed.build();
    } catch (RuntimeException e) {
      throw new FuzzMain.NoTable(e);
    }
  }

  /** Changes laid over a table, for a reader and for an applier. */
  static String overlay(JsonNode given, TableMetadata metadata, TableMetadata empty) {
    CommitLog log = log(empty);
    TableMark care =
        TableMark.of(metadata)
            .orElseGet(
                () ->
                    new TableMark(FuzzedLog.COMMITS, empty.uuid(), 0, TableMark.applied(metadata)));
    long readTs = given.get("readTs").asLong();
    List<LoggedChange> run = new ArrayList<>();
    given.get("entries").forEach(one -> run.add(logged(one)));
    List<LoggedChange> shown =
        run.stream()
            .filter(one -> one.commitTs() > care.applied() && one.commitTs() <= readTs)
            .toList();
    String read =
        Line.orError(
            () ->
                view(
                    Overlay.asOf(TABLE, metadata, care, shown, log::request, readTs, NOW_MS)
                        .metadata()));
    return Line.of(read, Line.orError(() -> applied(metadata, care, run, log)));
  }

  private static LoggedChange logged(JsonNode one) {
    Change change =
        new Change(TABLE, "u", Operation.APPEND, number(one, "from"), number(one, "to"), 0, 0);
    EntryKind kind = FuzzedLog.kind(one.get("kind").asText());
    Entry.Payload payload = new Entry.Payload(one.get("payload").asText(), null, null);
    Entry entry = FuzzedLog.entry(kind, one.get("ts").asLong(), List.of(change), payload);
    return new LoggedChange(entry, change);
  }

  private static String applied(
      TableMetadata table, TableMark care, List<LoggedChange> run, CommitLog log) {
    TableMetadata metadata = table;
    Optional<Stranger> stranger = LoggedState.of(metadata, care, run).stranger();
    boolean repaired = run.get(run.size() - 1).entry().kind() == EntryKind.REPAIR;
    for (LoggedChange change : run) {
      if (TableMark.applied(metadata) >= change.commitTs()) {
        continue;
      }
      UpdateTableRequest request = log.request(change);
      TableMetadata base = metadata;
      Optional<Stranger> foreign = stranger;
      metadata =
          Replay.applied(
              base,
              change,
              request,
              NOW_MS,
              Replay.Renumber.IN_MEMORY,
              repaired,
              builder -> ForeignBranches.set(builder, base, request, foreign, repaired));
      stranger = Optional.empty();
    }
    return view(metadata);
  }

  /** A table that a payload creates. */
  static String create(JsonNode given, TableMetadata empty) {
    Change change = new Change(TABLE, "u", Operation.CREATE, null, 12L, 0, 0);
    Entry.Payload payload = new Entry.Payload(given.get("payload").asText(), null, null);
    LoggedChange logged =
        new LoggedChange(FuzzedLog.entry(EntryKind.COMMIT, 5, List.of(change), payload), change);
    UpdateTableRequest request = log(empty).request(logged);
    if (!Replay.creates(request)) {
      throw TxnException.missing(TABLE);
    }
    return view(Replay.create(logged, request, NOW_MS));
  }

  private static CommitLog log(TableMetadata empty) {
    return new CommitLog(
        new OneTableCatalog(empty, new InMemoryFileIO()), FuzzedLog.COMMITS, Lake.CLOCK);
  }

  private static String view(TableMetadata metadata) {
    List<String> refs = new ArrayList<>();
    metadata.refs().forEach((name, ref) -> refs.add(name + "=" + ref.snapshotId()));
    refs.sort(Line.BY_CODE_POINT);
    return Line.of(
        History.mainId(metadata),
        metadata.currentSchemaId(),
        metadata.defaultSpecId(),
        metadata.defaultSortOrderId(),
        Line.list(metadata.snapshots().stream().map(Snapshot::snapshotId).sorted().toList()),
        Line.list(refs),
        metadata.properties().get(TableMark.APPLIED));
  }

  private static Long number(JsonNode one, String name) {
    return one.get(name).isNull() ? null : (Long) one.get(name).asLong();
  }
}
