package io.txns.iceberg.catalog;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteSet;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.TableMark;
import java.util.function.Supplier;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.MetadataTableType;
import org.apache.iceberg.MetadataTableUtils;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.metrics.LoggingMetricsReporter;
import org.apache.iceberg.metrics.MetricsReporter;

/**
 * Tables as Iceberg knows them: as a transaction sees them, or as of the newest head outside one.
 *
 * @param transaction the one that runs; gives null outside one
 * @param notesReads whether the tables' scans note what they read
 */
public record TableLoading(
    Services services, Supplier<Transaction> transaction, boolean notesReads) {
  private static final TxnLogger LOG = TxnLogger.of(TableLoading.class);

  /** Load a table, or a metadata table of one. */
  public Table load(TableIdentifier identifier) {
    return load(identifier, null);
  }

  /** Load a table as of {@code readTs}, in ms, whatever transaction runs. */
  public Table loadAt(TableIdentifier identifier, long readTs) {
    return load(identifier, readTs);
  }

  /**
   * Load a table to write it.
   *
   * @throws TxnException 55000 for one that strangers wrote; 0A000 for one that nobody registered,
   *     inside an explicit transaction
   */
  public Table loadForWrite(TableIdentifier identifier) {
    services.checks().refuseCommitTable(identifier);
    Transaction running = running();
    boolean explicit = running != null && running.explicit();
    if (explicit) {
      running.checkWritable();
    }
    if (services.config().get().register() == TxnConfig.Register.ALL) {
      registerUnlessOff(identifier);
    }
    if (explicit && !running.writeSet().creates(identifier)) {
      services.checks().writable(undropped(running.writeSet(), identifier));
    }
    Table table = load(identifier);
    if (!explicit) {
      refuseWrites(identifier, table);
    }
    return table;
  }

  /** Register a table that is not under care; while transactions are off, it stays so. */
  private void registerUnlessOff(TableIdentifier table) {
    Head head = services.log().loadIfExists();
    if (!head.state().off() && !services.newest().load(table, head).registered()) {
      services.registrar().register(table);
    }
  }

  private static Loaded undropped(WriteSet writeSet, TableIdentifier identifier) {
    if (writeSet.drops(identifier)) {
      throw new NoSuchTableException("Table does not exist: %s", identifier);
    }
    return writeSet.load(identifier);
  }

  /** Refuse a statement that would write a commit table, or one that strangers have written. */
  private void refuseWrites(TableIdentifier identifier, Table table) {
    if (table instanceof TxnTable) {
      services.checks().writable(services.newest().load(identifier));
    } else if (table instanceof HasTableOperations unregistered) {
      TableMark.refuseCommitTable(identifier, unregistered.operations().current());
    }
  }

  private Table load(TableIdentifier identifier, Long readTs) {
    try {
      return loadData(identifier, readTs);
    } catch (NoSuchTableException e) {
      MetadataTableType type = MetadataTableType.from(identifier.name());
      if (type == null || identifier.namespace().isEmpty()) {
        throw e;
      }
      TableIdentifier owner = TableIdentifier.of(identifier.namespace().levels());
      Table table = loadData(owner, readTs);
      if (notesReads && running() != null && table instanceof TxnTable) {
        running().recordRead(owner);
      }
      return MetadataTableUtils.createMetadataTableInstance(table, type);
    }
  }

  private Table loadData(TableIdentifier identifier, Long readTs) {
    if (readTs != null) {
      return table(services.newest().loadAt(identifier, readTs));
    }
    Transaction running = running();
    if (running == null) {
      return table(services.newest().load(identifier));
    }
    WriteSet writeSet = running.writeSet();
    return writeSet.creates(identifier)
        ? created(writeSet.table(identifier), running.readTs())
        : table(undropped(writeSet, identifier));
  }

  private Table table(Loaded loaded) {
    TableIdentifier identifier = loaded.identifier();
    if (!(loaded instanceof Loaded.Viewed)) {
      return loaded.real() == null
          ? loaded.table()
          : new BaseTable(unregistered(loaded), loaded.table().name());
    }
    loaded
        .stranger()
        .ifPresent(
            stranger ->
                LOG.warn(
                    LogFields.of(identifier),
                    "it is read as the log has it, without what strangers did: {}",
                    stranger.quarantined(identifier).getMessage()));
    MetricsReporter reporter =
        loaded.table() instanceof BaseTable base
            ? base.reporter()
            : LoggingMetricsReporter.instance();
    return table(
        operations(identifier, loaded, loaded.real()),
        identifier,
        loaded.metadata().uuid(),
        loaded.readTs(),
        reporter);
  }

  /** A table that the running transaction has created. */
  private Table created(StagedTable staged, long readTs) {
    TableIdentifier identifier = staged.identifier();
    String uuid = staged.base().uuid();
    TxnTableOperations operations =
        operations(identifier, null, staged.real()).of(TableIdentity.ofUuid(uuid));
    return table(operations, identifier, uuid, readTs, LoggingMetricsReporter.instance());
  }

  private TxnTable table(
      TxnTableOperations operations,
      TableIdentifier identifier,
      String uuid,
      long readTs,
      MetricsReporter reporter) {
    return new TxnTable(
        operations,
        services.catalogName() + "." + identifier,
        identifier,
        uuid,
        services.log().uuid(),
        readTs,
        transaction,
        reporter,
        notesReads);
  }

  /**
   * Operations through the protocol.
   *
   * @param loaded null for a table that does not exist yet
   * @param real the delegate's operations
   */
  TxnTableOperations operations(TableIdentifier identifier, Loaded loaded, TableOperations real) {
    return new TxnTableOperations(
        services.newest(),
        services.checks(),
        services.autocommit(),
        services.clock(),
        identifier,
        transaction,
        loaded,
        real);
  }

  /** The catalog's own operations: a write inside an explicit transaction names its cure. */
  UnregisteredOperations unregistered(Loaded loaded) {
    return new UnregisteredOperations(
        services.checks(),
        services.registrar(),
        services.log().identifier(),
        services.clock(),
        loaded,
        transaction);
  }

  /** The transaction that runs; null outside one. */
  Transaction running() {
    return transaction.get();
  }
}
