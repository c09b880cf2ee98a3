package io.txns.iceberg.catalog;

import io.txns.iceberg.Committed;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitRequest;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.Recreation;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import java.util.Map;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Commits one operation on one table outside an explicit transaction, as an entry of its own. */
public final class Autocommit {
  private static final String STREAMING_QUERY = "spark.sql.streaming.queryId";
  private static final String STREAMING_EPOCH = "spark.sql.streaming.epochId";

  private final CommitLog log;
  private final DataTables tables;
  private final Committer committer;
  private final Supplier<TxnConfig> config;
  private final TxnClock clock;

  Autocommit(
      CommitLog log,
      DataTables tables,
      Committer committer,
      Supplier<TxnConfig> config,
      TxnClock clock) {
    this.log = log;
    this.tables = tables;
    this.committer = committer;
    this.config = config;
    this.clock = clock;
  }

  /**
   * Commit one Iceberg operation.
   *
   * @param implicit the implicit transaction it belongs to, or null
   * @return empty where it changes nothing
   * @throws TxnException 40001 when the table has moved since it was loaded: Iceberg validates the
   *     operation on the newer state, and tries again
   */
  Optional<Committed> commit(
      Transaction implicit, Loaded.Registered loaded, TableMetadata updated) {
    StagedTable staged = StagedTable.of(loaded);
    staged.stage(loaded.metadata(), updated);
    return commit(implicit, loaded, staged);
  }

  /** Commit one append, on the newer state of its table when that has moved. */
  Optional<Committed> commitAppend(
      Transaction implicit, Loaded.Registered loaded, TableMetadata updated) {
    StagedTable staged = StagedTable.of(loaded);
    staged.stageAppend(loaded.metadata(), updated);
    return commit(implicit, loaded, staged);
  }

  private Optional<Committed> commit(
      Transaction implicit, Loaded.Registered loaded, StagedTable staged) {
    return staged.isChanged()
        ? Optional.of(commit(implicit, staged, loaded.readTs()))
        : Optional.empty();
  }

  /**
   * Create one table.
   *
   * @throws AlreadyExistsException where there is one, or somebody was faster
   * @throws TxnException 40001 where there has been one since it was planned
   */
  Committed create(
      Transaction implicit, TableIdentifier table, TableOperations real, TableMetadata first) {
    Head head = log.loadOrCreate();
    refuseExisting(table, head);
    StagedTable staged = new StagedTable(table, real, first, true);
    try {
      return commit(implicit, staged, head.upper());
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.CONFLICT) {
        throw new AlreadyExistsException(e, "Table already exists: %s", table);
      }
      throw e;
    }
  }

  /** Whoever comes after {@code head} is found by validation; whoever came before it, here. */
  private void refuseExisting(TableIdentifier table, Head head) {
    Loaded existing;
    try {
      existing = tables.loadWithDropped(table, head, head.upper());
    } catch (NoSuchTableException e) {
      return;
    }
    if (existing.dropped()) {
      throw Recreation.moved(table, head.upper());
    }
    throw new AlreadyExistsException("Table already exists: %s", table);
  }

  /** A batch of a stream has an id of its own, so that its entry is written once. */
  private CommitGroup.Key key(StagedTable staged) {
    String batch = null;
    for (Snapshot snapshot : staged.snapshots()) {
      String query = snapshot.summary().get(STREAMING_QUERY);
      String epoch = snapshot.summary().get(STREAMING_EPOCH);
      batch =
          query == null || epoch == null
              ? batch
              : String.format("stream/%s/%s/%s", query, epoch, TableNames.uuid(staged.base()));
    }
    // The entry of an earlier delivery may be anywhere: search as for an id of a caller's own.
    return batch == null
        ? CommitGroup.Key.fresh(clock.newTxnId())
        : new CommitGroup.Key(batch, idsSinceTs(log.newest()), CommitGroup.Origin.DERIVED);
  }

  private long idsSinceTs(Head head) {
    return config.get().idsSinceTs(head.state().settings(), head.upper(), clock.nowMs());
  }

  private Committed commit(Transaction implicit, StagedTable staged, long readTs) {
    TxnConfig options = config.get(); // a wrong one is refused before anything is written
    boolean strict = implicit != null && options.autocommitIsolation() != null;
    Committed committed =
        committer.commitOnce(
            new CommitRequest(
                EntryKind.COMMIT,
                key(staged),
                strict ? implicit.readTs() : readTs,
                clock.nowMs(),
                strict ? implicit.isolation() : Isolation.SNAPSHOT,
                implicit == null ? "" : implicit.comment(),
                strict ? implicit.reads() : new ReadSet(),
                false,
                Map.of(staged.identifier(), staged),
                Map.of(),
                new Leftovers(log),
                CommitRequest.ALLOWED),
            staged.snapshots());
    if (implicit != null) {
      implicit.operationCommitted(committed, staged);
    }
    return committed;
  }
}
