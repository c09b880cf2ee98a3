package io.txns.iceberg.table;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** Tables that the log has created, and the catalog has not. */
record LoggedTables(Catalog delegate, CommitLog log, TxnClock clock) {

  /** A table that is logged and not created yet. */
  Optional<Loaded> notCreatedYet(TableIdentifier identifier, Head head, long readTs) {
    return head.state()
        .creation(identifier, readTs)
        .map(creation -> created(identifier, creation, head, readTs))
        .map(
            metadata ->
                Loaded.of(
                    identifier,
                    null,
                    operationsToCreate(identifier, metadata),
                    new TableView(Overlay.inMemory(metadata, null), readTs, Optional.empty())));
  }

  /** A table whose name a stranger took before it was created. */
  Optional<Loaded> behind(
      TableIdentifier identifier, TableOperations others, Head head, long readTs) {
    TableMetadata other = others.current();
    return head.state()
        .creation(identifier, readTs)
        .filter(creation -> !creation.change().uuid().equals(TableNames.uuid(other)))
        .map(creation -> created(identifier, creation, head, readTs))
        .map(
            metadata ->
                Loaded.of(
                    identifier,
                    null,
                    others,
                    new TableView(
                        Overlay.inMemory(metadata, null),
                        readTs,
                        Optional.of(Stranger.ofTakenName(other)))));
  }

  /** A table as the log alone makes it: its creation, and what came after. */
  private TableMetadata created(
      TableIdentifier identifier, LoggedChange creation, Head head, long readTs) {
    List<LoggedChange> run = head.state().changes(creation.change().uuid(), 0, readTs);
    if (run.isEmpty()) {
      throw TxnException.missing(identifier); // it was born applied
    }
    UpdateTableRequest first = log.request(run.get(0));
    if (!Replay.creates(first)) {
      throw TxnException.missing(identifier);
    }
    Overlay.checkChain(identifier, run);
    TableMetadata metadata = Replay.create(run.get(0), first, clock.nowMs());
    for (LoggedChange change : run.subList(1, run.size())) {
      metadata = Replay.replay(metadata, change, log.request(change), clock.nowMs());
    }
    return metadata;
  }

  /**
   * Operations of a table that the catalog does not have, to create it with {@code commit(null,
   * ...)}: the catalog's own atomic create.
   */
  TableOperations operationsToCreate(TableIdentifier identifier, TableMetadata metadata) {
    // A client of a server sends these before all others, and ids are given in that order: current
    // ones, of a table that was altered after it was created, would take those of the first.
    BaseTransaction transaction =
        (BaseTransaction)
            delegate
                .buildTable(identifier, metadata.schemas().get(0))
                .withPartitionSpec(metadata.specs().get(0))
                .withSortOrder(metadata.sortOrders().get(0))
                .withLocation(metadata.location())
                .withProperties(metadata.properties())
                .withProperty(
                    TableProperties.FORMAT_VERSION, Integer.toString(metadata.formatVersion()))
                .createTransaction();
    return transaction.underlyingOps();
  }
}
