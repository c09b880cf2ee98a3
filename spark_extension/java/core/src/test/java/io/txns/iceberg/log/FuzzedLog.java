package io.txns.iceberg.log;

import com.fasterxml.jackson.databind.JsonNode;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.fuzz.Line;
import io.txns.iceberg.fuzz.OneTableCatalog;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Base64;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeSet;
import java.util.stream.IntStream;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** What readers, appliers and tidiers do with what the log holds, of one input of the fuzzer. */
public final class FuzzedLog {
  public static final TableIdentifier COMMITS = TableIdentifier.of("txns", "commits");

  private FuzzedLog() {}

  /** A record, by itself. */
  public static String record(JsonNode given) {
    Map<String, String> summary = new LinkedHashMap<>();
    given
        .get("summary")
        .properties()
        .forEach(one -> summary.put(one.getKey(), one.getValue().asText()));
    Entry found = EntryParser.fromSummary(summary);
    boolean writable = Line.holds(() -> EntryParser.checkWritable(summary));
    boolean head = Line.holds(() -> LogState.of(Map.of(1L, found), found));
    String archived =
        Line.orError(
            () -> {
              List<TransactionRow> rows = Archive.rowsOf(found, true);
              rows.forEach(Archive::record);
              return String.valueOf(rows.size());
            });
    return Line.of(entry(found), writable, head, archived);
  }

  /** A head, whole. */
  public static String head(TableMetadata metadata) {
    CommitLog log =
        new CommitLog(new OneTableCatalog(metadata, new InMemoryFileIO()), COMMITS, Lake.CLOCK);
    Head head = log.load();
    boolean writable =
        Line.holds(
            () ->
                metadata.snapshots().stream()
                    .map(Snapshot::summary)
                    .filter(summary -> summary != null && summary.containsKey(EntryParser.KIND))
                    .forEach(EntryParser::checkWritable));
    LogState state = head.state();
    TreeSet<String> uuids = new TreeSet<>(Line.BY_CODE_POINT);
    state.entries().forEach(each -> each.changes().forEach(change -> uuids.add(change.uuid())));
    List<Object> parts =
        new ArrayList<>(List.of(head.upper(), state.tidiedUpto(), state.off(), writable));
    state.entries().forEach(each -> parts.add(entry(each)));
    uuids.forEach(
        uuid ->
            parts.add(
                Line.list(
                    state.changes(uuid, 0, head.upper()).stream()
                        .map(LoggedChange::commitTs)
                        .toList())));
    uuids.forEach(uuid -> parts.add(state.forgottenTs(uuid)));
    return Line.of(parts.toArray());
  }

  /** A payload, inline or in a file. */
  public static String payload(JsonNode given, TableMetadata empty) {
    InMemoryFileIO files = new InMemoryFileIO();
    Entry.Payload stored;
    if (given.has("inline")) {
      stored = new Entry.Payload(given.get("inline").asText(), null, null);
    } else if (given.has("pieces")) {
      ByteArrayOutputStream content = new ByteArrayOutputStream();
      for (JsonNode piece : given.get("pieces")) {
        byte[] bytes = piece.get(0).asText().getBytes(StandardCharsets.UTF_8);
        for (int count = piece.get(1).asInt(); count > 0; count--) {
          content.writeBytes(bytes);
        }
      }
      String location = "file:///lake/txns/commits/metadata/txns-payload-0a-1b.json";
      byte[] bytes = content.toByteArray();
      stored = new Entry.Payload(null, location, Payloads.sha256(bytes));
      files.addFile(location, bytes);
    } else {
      String location = given.get("location").asText();
      stored = new Entry.Payload(null, location, given.get("sha256").asText());
      files.addFile(location, Base64.getDecoder().decode(given.get("bytes").asText()));
    }
    List<Change> changes =
        IntStream.range(0, given.get("tables").asInt())
            .mapToObj(
                n ->
                    new Change(
                        TableIdentifier.of("shop", "a"),
                        "u" + n,
                        Operation.APPEND,
                        null,
                        (long) n,
                        0,
                        0))
            .toList();
    Entry ours = entry(EntryKind.COMMIT, 5, changes, stored);
    CommitLog log = new CommitLog(new OneTableCatalog(empty, files), COMMITS, Lake.CLOCK);
    List<Object> parts = new ArrayList<>();
    for (Change change : changes) {
      UpdateTableRequest request = log.request(new LoggedChange(ours, change));
      parts.add(Line.request(request));
    }
    return Line.of(parts.toArray());
  }

  public static String location(JsonNode given) {
    return String.valueOf(
        Payloads.isAtItsPlace(given.get("path").asText(), given.get("log").asText()));
  }

  /** Rows of the archive. */
  public static String archive(JsonNode given) {
    List<TransactionRow> rows = new ArrayList<>();
    for (JsonNode row : given.get("rows")) {
      rows.add(
          new TransactionRow(
              row.get("commit_ts").asLong(),
              row.get("commit_ts").asLong(),
              text(row, "txn_id"),
              text(row, "kind"),
              text(row, "table_name"),
              text(row, "table_uuid"),
              text(row, "operation"),
              number(row, "parent_snapshot_id"),
              number(row, "snapshot_id"),
              number(row, "added_records"),
              number(row, "deleted_records"),
              row.get("read_ts").asLong(),
              text(row, "isolation"),
              text(row, "engine"),
              text(row, "comment"),
              true));
    }
    return Line.of(Archive.entriesOf(rows).stream().map(FuzzedLog::entry).toArray());
  }

  /** An entry with changes and a payload, for what is laid over a table. */
  public static Entry entry(EntryKind kind, long ts, List<Change> changes, Entry.Payload payload) {
    return new Entry(kind, ts, 0, ts, 0, 0, "t" + ts, Isolation.SNAPSHOT, "", "", changes, payload);
  }

  public static EntryKind kind(String stored) {
    return EntryKind.parse(stored);
  }

  private static String text(JsonNode row, String name) {
    return row.get(name).isNull() ? null : row.get(name).asText();
  }

  private static Long number(JsonNode row, String name) {
    return row.get(name).isNull() ? null : (Long) row.get(name).asLong();
  }

  private static String entry(Entry found) {
    List<Object> parts = new ArrayList<>();
    parts.addAll(List.of(found.kind().stored(), found.txnId(), found.upper(), found.tidiedUpto()));
    parts.addAll(List.of(found.commitTs(), found.prevTs(), found.readTs()));
    parts.addAll(List.of(found.isolation().stored(), found.engine(), found.comment()));
    found.changes().forEach(change -> parts.add(change(change)));
    parts.add(found.payload().inline());
    parts.add(found.payload().location());
    parts.add(found.payload().sha256());
    found.reserved().forEach(each -> parts.add(reservation(each)));
    return Line.of(parts.toArray());
  }

  private static String reservation(Reservation one) {
    return Line.of(one.txnId(), Line.list(one.uuids()), one.ticket(), one.number(), one.lastsMs());
  }

  private static String change(Change change) {
    return Line.of(
        name(change.table().namespace(), change.table().name()),
        change.uuid(),
        change.operation().stored(),
        change.fromSnapshotId(),
        change.toSnapshotId(),
        change.addedRecords(),
        change.deletedRecords());
  }

  static String name(Namespace namespace, String name) {
    List<String> parts = new ArrayList<>(List.of(namespace.levels()));
    parts.add(name);
    return Line.list(parts);
  }
}
