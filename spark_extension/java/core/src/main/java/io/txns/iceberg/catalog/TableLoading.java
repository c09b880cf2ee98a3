package io.txns.iceberg.catalog;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteSet;
import io.txns.iceberg.table.Loaded;
import java.util.Optional;
import java.util.function.Supplier;
import org.apache.iceberg.BaseTable;
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
 * @param moment when tables are read outside one; empty for a moment of each load's own
 * @param notesReads whether the tables' scans note what they read
 */
public record TableLoading(
    Services services,
    Supplier<Transaction> transaction,
    Supplier<Optional<ReadMoment>> moment,
    boolean notesReads) {
  private static final TxnLogger LOG = TxnLogger.of(TableLoading.class);

  /** Tables whose every load outside a transaction asks the log. */
  public TableLoading(Services services, Supplier<Transaction> transaction) {
    this(services, transaction, Optional::empty, true);
  }

  /** The same tables in another transaction. */
  public TableLoading in(Supplier<Transaction> other) {
    return new TableLoading(services, other, moment, notesReads);
  }

  /** The same tables, whose scans do not note what they read. */
  public TableLoading withoutNotes() {
    return new TableLoading(services, transaction, moment, false);
  }

  /** The same tables, read outside a transaction at moments that somebody gives. */
  public TableLoading at(Supplier<Optional<ReadMoment>> moments) {
    return new TableLoading(services, transaction, moments, notesReads);
  }

  /** Load a table, or a metadata table of one. */
  public Table load(TableIdentifier identifier) {
    return load(identifier, null);
  }

  /**
   * Let a statement that is to alter or drop a table outside an explicit transaction stand on what
   * strangers have appended to it.
   */
  public void beforeAlter(TableIdentifier identifier) {
    Transaction running = running();
    if (running == null || !running.explicit()) {
      toWrite(services, identifier);
    }
  }

  /** Load a table as of {@code readTs}, in ms, whatever transaction runs. */
  public Table loadAt(TableIdentifier identifier, long readTs) {
    return load(identifier, readTs);
  }

  /**
   * Load a table to write it. Outside an explicit transaction what strangers have appended to it is
   * adopted first, so that the write sees it.
   *
   * @throws TxnException 55000 where strangers did more than that; 0A000 for one that nobody
   *     registered, inside an explicit transaction
   */
  public Table loadForWrite(TableIdentifier identifier) {
    services.checks().refuseCommitTable(identifier);
    Transaction running = running();
    boolean explicit = running != null && running.explicit();
    if (explicit) {
      running.checkWritable();
      running.beforeWrite();
    }
    if (services.config().get().register() == TxnConfig.Register.ALL) {
      registerUnlessOff(identifier);
    }
    return orMetadataTable(identifier, null, () -> writable(identifier, explicit));
  }

  private Table writable(TableIdentifier identifier, boolean explicit) {
    // Outside a transaction as it is now: it may have come under care since it was read.
    Loaded loaded = running() == null ? toWrite(services, identifier) : loaded(identifier);
    if (running() != null && !explicit && isAdopted(services, loaded)) {
      loaded = running().writeSet().again(identifier);
    }
    if (loaded == null) {
      return created(identifier);
    }
    if (loaded instanceof Loaded.Forgotten && !explicit) {
      loaded = services.newest().load(identifier); // who applies that it has left care
    }
    if (explicit || loaded instanceof Loaded.Viewed) {
      services.checks().writable(loaded);
    } else {
      services.checks().refuseCommitTable(loaded);
    }
    return table(loaded);
  }

  /** A table as it is now, to be written at once: what strangers have appended to it is adopted. */
  static Loaded toWrite(Services services, TableIdentifier identifier) {
    Loaded loaded = services.newest().load(identifier);
    return isAdopted(services, loaded) ? services.newest().load(identifier) : loaded;
  }

  /** Adopts what strangers have appended to a table; says whether it is to be loaded again. */
  private static boolean isAdopted(Services services, Loaded loaded) {
    boolean isDue =
        loaded instanceof Loaded.Registered table
            && !table.dropped()
            && services.adoption().isDue(table.real().current());
    if (isDue) {
      services.committer().adopt(loaded.identifier()); // which others may do at this moment
    }
    return isDue;
  }

  /** Register a table that is not under care; while transactions are off, it stays so. */
  private void registerUnlessOff(TableIdentifier table) {
    Head head = services.log().loadIfExists();
    if (!head.state().off() && !services.newest().load(table, head).registered()) {
      services.registrar().register(table);
    }
  }

  private static Loaded undropped(WriteSet writeSet, TableIdentifier identifier) {
    Loaded known = writeSet.load(identifier); // by another name than it was dropped by, perhaps
    if (writeSet.drops(identifier)) {
      throw new NoSuchTableException("Table does not exist: %s", identifier);
    }
    return known;
  }

  private Table load(TableIdentifier identifier, Long readTs) {
    return orMetadataTable(identifier, readTs, () -> loadData(identifier, readTs));
  }

  private Table orMetadataTable(TableIdentifier identifier, Long readTs, Supplier<Table> load) {
    try {
      return load.get();
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
    Loaded loaded =
        readTs == null ? loaded(identifier) : services.newest().loadAt(identifier, readTs);
    return loaded == null ? created(identifier) : table(loaded);
  }

  /** A table as it is read now; null for one that the running transaction has created. */
  private Loaded loaded(TableIdentifier identifier) {
    Transaction running = running();
    if (running == null) {
      return loadOutside(identifier);
    }
    running.beforeRead();
    WriteSet writeSet = running.writeSet();
    return writeSet.creates(identifier) ? null : undropped(writeSet, identifier);
  }

  private Loaded loadOutside(TableIdentifier identifier) {
    Optional<ReadMoment> now = moment.get();
    return now.isPresent() ? now.get().load(identifier) : services.newest().load(identifier);
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
        TableNames.uuid(loaded.metadata()),
        loaded.readTs(),
        reporter);
  }

  /** A table that the running transaction has created. */
  private Table created(TableIdentifier identifier) {
    StagedTable staged = running().writeSet().table(identifier);
    String uuid = TableNames.uuid(staged.base());
    TxnTableOperations operations =
        operations(identifier, null, staged.real()).of(TableIdentity.ofUuid(uuid));
    return table(
        operations, identifier, uuid, running().readTs(), LoggingMetricsReporter.instance());
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
