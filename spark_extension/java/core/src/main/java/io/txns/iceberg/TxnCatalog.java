package io.txns.iceberg;

import io.txns.iceberg.catalog.TableDrop;
import io.txns.iceberg.catalog.TableIdentity;
import io.txns.iceberg.catalog.TableListing;
import io.txns.iceberg.catalog.TableRename;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTable;
import io.txns.iceberg.catalog.TxnTableBuilder;
import io.txns.iceberg.catalog.TxnTableOperations;
import io.txns.iceberg.catalog.UnregisteredOperations;
import io.txns.iceberg.catalog.WriteChecks;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.TableMark;
import io.txns.iceberg.table.TableView;
import java.io.Closeable;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.MetadataTableType;
import org.apache.iceberg.MetadataTableUtils;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.catalog.ViewCatalog;
import org.apache.iceberg.exceptions.NamespaceNotEmptyException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NoSuchViewException;
import org.apache.iceberg.hadoop.Configurable;
import org.apache.iceberg.hadoop.HadoopCatalog;
import org.apache.iceberg.metrics.LoggingMetricsReporter;
import org.apache.iceberg.metrics.MetricsReporter;
import org.apache.iceberg.view.View;
import org.apache.iceberg.view.ViewBuilder;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Tables as a transaction sees them, or as of the newest head outside one.
 *
 * <p>Outside Spark it is a {@code catalog-impl} with the real catalog's options under {@code
 * txns.delegate.*}: every commit through it is a transaction of its own. Views and namespaces are
 * the real catalog's, created and dropped at once.
 */
public final class TxnCatalog
    implements Catalog, SupportsNamespaces, ViewCatalog, Configurable<Object>, Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(TxnCatalog.class);

  private TxnHandle handle;
  private Supplier<Transaction> transaction = () -> null;
  private boolean notesReads = true;
  private Object hadoopConf;

  /** For Iceberg, which calls {@link #initialize}. */
  public TxnCatalog() {}

  TxnCatalog(TxnHandle handle, Supplier<Transaction> transaction) {
    this(handle, transaction, true);
  }

  private TxnCatalog(TxnHandle handle, Supplier<Transaction> transaction, boolean notesReads) {
    this.handle = handle;
    this.transaction = transaction;
    this.notesReads = notesReads;
  }

  @Override
  public void setConf(Object conf) {
    this.hadoopConf = conf;
  }

  @Override
  public void initialize(String name, Map<String, String> properties) {
    Map<String, String> delegateOptions = new HashMap<>();
    properties.forEach(
        (key, value) -> {
          if (key.toLowerCase(Locale.ROOT).startsWith(TxnConfig.DELEGATE_PREFIX)) {
            delegateOptions.put(key.substring(TxnConfig.DELEGATE_PREFIX.length()), value);
          }
        });
    if (delegateOptions.isEmpty()) {
      throw TxnException.invalidUsage(
          "42000",
          "a TxnCatalog needs the real catalog's options under txns.delegate.*, for example"
              + " txns.delegate.type");
    }
    Catalog delegate = CatalogUtil.buildIcebergCatalog(name, delegateOptions, hadoopConf);
    this.handle = TxnHandle.open(name, delegate, TxnConfig.from(properties), TxnClock.system());
  }

  /** The protocol underneath: begin transactions, register tables, repair them. */
  public TxnHandle handle() {
    return handle;
  }

  @Override
  public String name() {
    return handle.catalogName();
  }

  /** This catalog as {@code running} sees it: what is committed through it is staged. */
  public TxnCatalog within(Transaction running) {
    return new TxnCatalog(handle, () -> running, notesReads);
  }

  /**
   * The same tables, for an engine that knows better what it reads of them and tells the
   * transaction ({@link Transaction#recordRead}): their scans do not.
   */
  public TxnCatalog leavingReadsToTheEngine() {
    return new TxnCatalog(handle, transaction, false);
  }

  @Override
  public Table loadTable(TableIdentifier identifier) {
    return load(identifier, null);
  }

  /**
   * Load a table to write it.
   *
   * @throws TxnException 55000 for one that strangers wrote; 0A000 for one that nobody registered,
   *     inside an explicit transaction
   */
  public Table loadTableForWrite(TableIdentifier identifier) {
    handle.checks().refuseCommitTable(identifier);
    Transaction running = running();
    boolean explicit = running != null && running.explicit();
    if (explicit) {
      running.checkWritable();
    }
    if (handle.config().register() == TxnConfig.Register.ALL) {
      handle.registerUnlessOff(identifier);
    }
    if (explicit && !running.creates(identifier)) {
      handle.checks().checkWritable(writable(running, identifier));
    }
    Table table = load(identifier, null);
    if (!explicit) {
      refuseWrites(identifier, table);
    }
    return table;
  }

  /** Refuse a statement that would write a commit table, or one that strangers have written. */
  private void refuseWrites(TableIdentifier identifier, Table table) {
    if (table instanceof TxnTable) {
      handle.checks().checkWritable(handle.loadNewest(identifier));
    } else if (table instanceof HasTableOperations unregistered) {
      TableMark.refuseCommitTable(identifier, unregistered.operations().current());
    }
  }

  /** Load a table as of {@code readTs}, in ms, whatever transaction runs. */
  public Table loadTableAt(TableIdentifier identifier, long readTs) {
    return load(identifier, readTs);
  }

  private DataTables.Loaded writable(Transaction running, TableIdentifier identifier) {
    if (running.drops(identifier)) {
      throw new NoSuchTableException("Table does not exist: %s", identifier);
    }
    return running.load(identifier);
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
    Transaction running = running();
    if (running != null && readTs == null && running.creates(identifier)) {
      StagedTable staged = running.stagedTable(identifier);
      return table(identifier, staged.base().uuid(), null, staged.real(), running.readTs());
    }
    if (running != null && readTs == null && running.drops(identifier)) {
      throw new NoSuchTableException("Table does not exist: %s", identifier);
    }
    DataTables.Loaded loaded;
    if (readTs != null) {
      loaded = handle.loadAt(identifier, readTs);
    } else if (running != null) {
      loaded = running.load(identifier);
    } else {
      loaded = handle.loadNewest(identifier);
    }
    if (loaded.view() == null) {
      return unregistered(loaded);
    }
    loaded
        .view()
        .stranger()
        .ifPresent(
            stranger ->
                LOG.warn(
                    "{} is read as the log has it, without what strangers did: {}",
                    identifier,
                    stranger.quarantined(identifier).getMessage()));
    TableView view = loaded.view();
    return table(identifier, view.metadata().uuid(), loaded, loaded.real(), view.readTs());
  }

  /** Reads go on as they are; a write inside an explicit transaction names its cure. */
  private Table unregistered(DataTables.Loaded loaded) {
    if (loaded.real() == null) {
      return loaded.table();
    }
    return new BaseTable(
        new UnregisteredOperations(handle, loaded, transaction), loaded.table().name());
  }

  private TxnTable table(
      TableIdentifier identifier,
      String uuid,
      DataTables.Loaded loaded,
      TableOperations real,
      long readTs) {
    TxnTableOperations operations =
        new TxnTableOperations(handle, identifier, transaction, loaded, real);
    if (loaded == null) {
      operations.of(TableIdentity.ofUuid(uuid));
    }
    MetricsReporter reporter =
        loaded != null && loaded.table() instanceof BaseTable base
            ? base.reporter()
            : LoggingMetricsReporter.instance();
    return new TxnTable(
        operations,
        fullName(identifier),
        identifier,
        uuid,
        handle.log().uuid(),
        readTs,
        transaction,
        reporter,
        notesReads);
  }

  private String fullName(TableIdentifier identifier) {
    return handle.catalogName() + "." + identifier;
  }

  @Override
  public boolean tableExists(TableIdentifier identifier) {
    try {
      load(identifier, null);
      return true;
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  /** Whether the catalog underneath has a table that is dropped for who reads now. */
  public boolean isDropped(TableIdentifier identifier) {
    return !tableExists(identifier) && handle.hasDropped(identifier, running());
  }

  /** The tables of a namespace that the catalog underneath has and that are dropped. */
  public Set<TableIdentifier> listDropped(Namespace namespace) {
    Set<TableIdentifier> dropped = new HashSet<>(handle.delegate().listTables(namespace));
    listTables(namespace).forEach(dropped::remove);
    return dropped;
  }

  @Override
  public List<TableIdentifier> listTables(Namespace namespace) {
    Transaction running = running();
    if (running != null) {
      running.reads().listed(namespace);
    }
    return new TableListing(handle).list(namespace, running);
  }

  @Override
  public TableBuilder buildTable(TableIdentifier identifier, Schema schema) {
    return new TxnTableBuilder(handle, this, transaction, identifier, schema);
  }

  /** Drop a table; one under care keeps its files, which readers and the log may need. */
  @Override
  public boolean dropTable(TableIdentifier identifier) {
    return new TableDrop(handle, transaction).drop(identifier);
  }

  @Override
  public boolean dropTable(TableIdentifier identifier, boolean purge) {
    return new TableDrop(handle, transaction).drop(identifier, purge);
  }

  @Override
  public void renameTable(TableIdentifier from, TableIdentifier to) {
    Transaction running = running();
    if (running != null && running.explicit()) {
      throw TxnException.unsupported("RENAME is not possible inside a transaction: run it outside");
    }
    new TableRename(handle).rename(from, to);
  }

  @Override
  public Table registerTable(TableIdentifier identifier, String metadataFileLocation) {
    WriteChecks.refuseWithoutNamespace(handle.catalogName(), identifier);
    handle.checks().refuseCommitTable(identifier);
    try {
      handle.checks().refuseLogged(identifier);
    } catch (TxnException e) {
      if (e.kind() != ErrorKind.QUARANTINED) {
        throw e;
      }
      LOG.warn("{} is registered to end its quarantine: {}", identifier, e.getMessage());
    }
    return handle.delegate().registerTable(identifier, metadataFileLocation);
  }

  @Override
  public void invalidateTable(TableIdentifier identifier) {
    handle.delegate().invalidateTable(identifier);
  }

  private Transaction running() {
    return transaction.get();
  }

  private SupportsNamespaces namespaces() {
    if (handle.delegate() instanceof SupportsNamespaces namespaces) {
      return namespaces;
    }
    throw TxnException.unsupported("the catalog has no namespaces: " + name());
  }

  private ViewCatalog views() {
    if (handle.delegate() instanceof ViewCatalog views) {
      return views;
    }
    throw TxnException.unsupported("the catalog has no views: " + name());
  }

  @Override
  public void createNamespace(Namespace namespace, Map<String, String> metadata) {
    // It keeps no metadata, and Spark always says who the owner is: Iceberg's Spark catalog leaves
    // that out for a HadoopCatalog, but does not see that this is one.
    boolean ownerOnly = metadata.keySet().equals(Set.of("owner"));
    boolean left = ownerOnly && namespaces() instanceof HadoopCatalog;
    namespaces().createNamespace(namespace, left ? Map.of() : metadata);
  }

  @Override
  public List<Namespace> listNamespaces(Namespace namespace) {
    return namespaces().listNamespaces(namespace);
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(Namespace namespace) {
    return namespaces().loadNamespaceMetadata(namespace);
  }

  @Override
  public boolean dropNamespace(Namespace namespace) {
    List<TableIdentifier> tables;
    try {
      tables = new TableListing(handle).list(namespace, running());
    } catch (NoSuchNamespaceException e) {
      return false;
    }
    if (!tables.isEmpty()) {
      // The catalog underneath does not know of those that are logged and not created yet.
      throw new NamespaceNotEmptyException(
          "Namespace %s is not empty. %d tables exist.", namespace, tables.size());
    }
    return namespaces().dropNamespace(namespace);
  }

  @Override
  public boolean setProperties(Namespace namespace, Map<String, String> properties) {
    return namespaces().setProperties(namespace, properties);
  }

  @Override
  public boolean removeProperties(Namespace namespace, Set<String> properties) {
    return namespaces().removeProperties(namespace, properties);
  }

  @Override
  public boolean namespaceExists(Namespace namespace) {
    return namespaces().namespaceExists(namespace);
  }

  @Override
  public List<TableIdentifier> listViews(Namespace namespace) {
    return handle.delegate() instanceof ViewCatalog ? views().listViews(namespace) : List.of();
  }

  @Override
  public View loadView(TableIdentifier identifier) {
    if (!(handle.delegate() instanceof ViewCatalog)) {
      throw new NoSuchViewException("View does not exist: %s", identifier);
    }
    return views().loadView(identifier);
  }

  @Override
  public boolean viewExists(TableIdentifier identifier) {
    return handle.delegate() instanceof ViewCatalog && views().viewExists(identifier);
  }

  @Override
  public ViewBuilder buildView(TableIdentifier identifier) {
    ViewCatalog views = views();
    handle.checks().refuseLogged(identifier);
    return views.buildView(identifier);
  }

  @Override
  public boolean dropView(TableIdentifier identifier) {
    return handle.delegate() instanceof ViewCatalog && views().dropView(identifier);
  }

  @Override
  public void renameView(TableIdentifier from, TableIdentifier to) {
    ViewCatalog views = views();
    handle.checks().refuseLogged(to);
    views.renameView(from, to);
  }

  @Override
  public void invalidateView(TableIdentifier identifier) {
    if (handle.delegate() instanceof ViewCatalog views) {
      views.invalidateView(identifier);
    }
  }

  @Override
  public void close() throws IOException {
    if (handle != null) {
      handle.close();
    }
  }
}
