package io.txns.iceberg.table;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.Timestamps;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/** Tables that a forget takes from care: what they were before it, and their owner's since. */
record LeavingTables(CommitLog log, Timeline timeline, TxnClock clock) {

  /** The change that first took a table from care above a timestamp; empty where none did. */
  Optional<Change> forgetAbove(long ts, String uuid) {
    return timeline.above(log.loadIfExists().state(), ts).stream()
        .filter(entry -> entry.kind() == EntryKind.FORGET)
        .flatMap(entry -> entry.changes().stream())
        .filter(change -> change.uuid().equals(uuid))
        .findFirst();
  }

  /** The change that took a table from care above a timestamp, where a mark followed it. */
  Optional<Change> forgetBeforeMark(TableMetadata metadata, long ts) {
    return TableMark.applied(metadata) > ts && OurSnapshots.markedAbove(metadata, ts)
        ? forgetAbove(ts, TableNames.uuid(metadata))
        : Optional.empty();
  }

  /** A table as of a {@code readTs} below its forget. */
  Loaded before(
      Change forget, TableIdentifier identifier, BaseTable table, TableMark mark, long readTs) {
    TableMetadata metadata = table.operations().current();
    TableView view =
        Overlay.beforeForget(identifier, metadata, mark, forget, readTs, clock.nowMs());
    return new Loaded.Registered(identifier, table, table.operations(), view);
  }

  /** A table whose forget is all that is to be applied to it: it is its owner's since. */
  Optional<Loaded> leaving(
      TableIdentifier identifier, BaseTable table, TableMark mark, Head head, long readTs) {
    TableMetadata metadata = table.operations().current();
    List<LoggedChange> run = TableMark.outstanding(metadata, head);
    if (run.isEmpty() || run.get(0).entry().kind() != EntryKind.FORGET || readTs < mark.applied()) {
      return Optional.empty();
    }
    LoggedChange forget = run.get(0);
    if (readTs < forget.commitTs()) {
      return Optional.of(before(forget.change(), identifier, table, mark, readTs));
    }
    TableMetadata seen = Timestamps.notAhead(metadata, clock.nowMs());
    TableMetadata left =
        Overlay.inMemory(
            TableMark.leaving(seen, forget.commitTs()).build(), metadata.metadataFileLocation());
    TableView view = new TableView(left, readTs, Optional.empty());
    return Optional.of(new Loaded.Forgotten(identifier, table, table.operations(), view));
  }
}
