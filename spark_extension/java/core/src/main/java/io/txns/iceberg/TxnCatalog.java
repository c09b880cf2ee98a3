package io.txns.iceberg;

import io.txns.iceberg.catalog.ReadMoment;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.catalog.TableDrop;
import io.txns.iceberg.catalog.TableListing;
import io.txns.iceberg.catalog.TableLoading;
import io.txns.iceberg.catalog.TableRename;
import io.txns.iceberg.catalog.TimeOuts;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTableBuilder;
import java.io.Closeable;
import java.io.IOException;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
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
import org.apache.iceberg.view.View;
import org.apache.iceberg.view.ViewBuilder;

/**
 * Tables as a transaction sees them, or as of the newest head outside one.
 *
 * <p>Outside Spark it is a {@code catalog-impl} with the real catalog's options under {@code
 * txns.delegate.*}: every commit through it is a transaction of its own. Views and namespaces are
 * the real catalog's, created and dropped at once.
 */
public final class TxnCatalog
    implements Catalog, SupportsNamespaces, ViewCatalog, Configurable<Object>, Closeable {
  private static final TxnLogger LOG = TxnLogger.of(TxnCatalog.class);

  private TxnHandle handle;
  private TableLoading loading;
  private Object hadoopConf;

  /** For Iceberg, which calls {@link #initialize}. */
  public TxnCatalog() {}

  TxnCatalog(TxnHandle handle, Supplier<Transaction> transaction) {
    this(handle, new TableLoading(handle.services(), transaction));
  }

  private TxnCatalog(TxnHandle handle, TableLoading loading) {
    this.handle = handle;
    this.loading = loading;
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
    Map<String, String> timed = TimeOuts.in(delegateOptions);
    Catalog delegate = CatalogUtil.buildIcebergCatalog(name, timed, hadoopConf);
    this.handle =
        TxnHandle.openAlone(
            name, timed, delegate, TxnConfig.from(properties), TxnClock.system(), TxnMetrics.NONE);
    this.loading = new TableLoading(services(), () -> null);
  }

  /** The protocol underneath: begin transactions, register tables, repair them. */
  public TxnHandle handle() {
    return handle;
  }

  private Services services() {
    return handle.services();
  }

  private Catalog delegate() {
    return services().delegate();
  }

  private Transaction running() {
    return loading.transaction().get();
  }

  @Override
  public String name() {
    return services().catalogName();
  }

  /** This catalog as {@code running} sees it: what is committed through it is staged. */
  public TxnCatalog within(Transaction running) {
    return new TxnCatalog(handle, loading.in(() -> running));
  }

  /**
   * The same tables, for an engine that knows better what it reads of them and tells the
   * transaction ({@link Transaction#recordRead}): their scans do not.
   */
  public TxnCatalog leavingReadsToTheEngine() {
    return new TxnCatalog(handle, loading.withoutNotes());
  }

  /**
   * The same tables, for an engine that loads several for one statement: outside a transaction they
   * are read at the moments that it gives. Where it gives none, each is read at the newest.
   */
  public TxnCatalog readingAt(Supplier<Optional<ReadMoment>> moments) {
    return new TxnCatalog(handle, loading.at(moments));
  }

  /** The moment of the newest head. */
  public ReadMoment now() {
    return ReadMoment.now(services().newest(), services().clock());
  }

  @Override
  public Table loadTable(TableIdentifier identifier) {
    return loading.load(identifier);
  }

  /**
   * Load a table to write it; what strangers have appended to it comes before the write.
   *
   * @throws TxnException 55000 where strangers did more than that; 0A000 for one that nobody
   *     registered, inside an explicit transaction
   */
  public Table loadTableForWrite(TableIdentifier identifier) {
    return loading.loadForWrite(identifier);
  }

  /** Adopt what strangers have appended to a table, for a statement that is to alter it. */
  public void beforeAlter(TableIdentifier identifier) {
    loading.beforeAlter(identifier);
  }

  /** Load a table as of {@code readTs}, in ms, whatever transaction runs. */
  public Table loadTableAt(TableIdentifier identifier, long readTs) {
    return loading.loadAt(identifier, readTs);
  }

  @Override
  public boolean tableExists(TableIdentifier identifier) {
    try {
      loading.load(identifier);
      return true;
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  /** Whether the catalog underneath has a table that is dropped for who reads now. */
  public boolean isDropped(TableIdentifier identifier) {
    return !tableExists(identifier) && services().newest().hasDropped(identifier, running());
  }

  /** The tables of a namespace that the catalog underneath has and that are dropped. */
  public Set<TableIdentifier> listDropped(Namespace namespace) {
    Set<TableIdentifier> dropped = new HashSet<>(delegate().listTables(namespace));
    listTables(namespace).forEach(dropped::remove);
    return dropped;
  }

  @Override
  public List<TableIdentifier> listTables(Namespace namespace) {
    Transaction running = running();
    if (running != null) {
      running.reads().listed(namespace);
    }
    return list(namespace, running);
  }

  private List<TableIdentifier> list(Namespace namespace, Transaction running) {
    Services of = services();
    return new TableListing(of.delegate(), of.log(), of.timeline(), of.tables())
        .list(namespace, running);
  }

  @Override
  public TableBuilder buildTable(TableIdentifier identifier, Schema schema) {
    return new TxnTableBuilder(loading, identifier, schema);
  }

  /** Drop a table; one under care keeps its files, which readers and the log may need. */
  @Override
  public boolean dropTable(TableIdentifier identifier) {
    return new TableDrop(services(), loading.transaction()).drop(identifier);
  }

  @Override
  public boolean dropTable(TableIdentifier identifier, boolean purge) {
    return new TableDrop(services(), loading.transaction()).drop(identifier, purge);
  }

  @Override
  public void renameTable(TableIdentifier from, TableIdentifier to) {
    Transaction running = running();
    if (running != null && running.explicit()) {
      throw TxnException.unsupported("RENAME is not possible inside a transaction: run it outside");
    }
    new TableRename(services()).rename(from, to);
  }

  @Override
  public Table registerTable(TableIdentifier identifier, String metadataFileLocation) {
    services().checks().refuseWithoutNamespace(identifier);
    services().checks().refuseCommitTable(identifier);
    try {
      services().checks().refuseLogged(identifier);
    } catch (TxnException e) {
      if (e.kind() != ErrorKind.QUARANTINED) {
        throw e;
      }
      LOG.warn(
          LogFields.of(identifier), "it is registered to end its quarantine: {}", e.getMessage());
    }
    return delegate().registerTable(identifier, metadataFileLocation);
  }

  @Override
  public void invalidateTable(TableIdentifier identifier) {
    delegate().invalidateTable(identifier);
  }

  private SupportsNamespaces namespaces() {
    if (delegate() instanceof SupportsNamespaces namespaces) {
      return namespaces;
    }
    throw TxnException.unsupported("the catalog has no namespaces: " + name());
  }

  private ViewCatalog views() {
    if (delegate() instanceof ViewCatalog views) {
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
      tables = list(namespace, running());
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
    return delegate() instanceof ViewCatalog ? views().listViews(namespace) : List.of();
  }

  @Override
  public View loadView(TableIdentifier identifier) {
    if (!(delegate() instanceof ViewCatalog)) {
      throw new NoSuchViewException("View does not exist: %s", identifier);
    }
    return views().loadView(identifier);
  }

  @Override
  public boolean viewExists(TableIdentifier identifier) {
    return delegate() instanceof ViewCatalog && views().viewExists(identifier);
  }

  @Override
  public ViewBuilder buildView(TableIdentifier identifier) {
    ViewCatalog views = views();
    services().checks().refuseLogged(identifier);
    return views.buildView(identifier);
  }

  @Override
  public boolean dropView(TableIdentifier identifier) {
    return delegate() instanceof ViewCatalog && views().dropView(identifier);
  }

  @Override
  public void renameView(TableIdentifier from, TableIdentifier to) {
    ViewCatalog views = views();
    services().checks().refuseLogged(to);
    views.renameView(from, to);
  }

  @Override
  public void invalidateView(TableIdentifier identifier) {
    if (delegate() instanceof ViewCatalog views) {
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
