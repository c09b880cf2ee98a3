package io.txns.spark;

import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.TimeOuts;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTable;
import io.txns.spark.command.TxnExplainCommand;
import io.txns.spark.compat.IcebergCatalog;
import io.txns.spark.compat.Relations;
import io.txns.spark.compat.Versions;
import io.txns.spark.plan.SparkReads;
import io.txns.spark.procedure.Procedures;
import io.txns.spark.session.DriverMetrics;
import io.txns.spark.session.ReadMoments;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.session.WriteTarget;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Consumer;
import java.util.function.Function;
import java.util.stream.Collectors;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.spark.PathIdentifier;
import org.apache.iceberg.spark.SparkCatalog;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.catalyst.analysis.AsOfTimestamp;
import org.apache.spark.sql.catalyst.analysis.AsOfVersion;
import org.apache.spark.sql.catalyst.analysis.NoSuchTableException;
import org.apache.spark.sql.catalyst.analysis.TableAlreadyExistsException;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.StagedTable;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableChange;
import org.apache.spark.sql.connector.catalog.TableWritePrivilege;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.expressions.Transform;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.util.CaseInsensitiveStringMap;

/**
 * Iceberg's Spark catalog with transactions over its tables.
 *
 * <p>Takes the options of {@link SparkCatalog} for the catalog that the tables live in, and {@code
 * txns.*} options (see {@link TxnConfig}). One instance belongs to one Spark session. Tables are
 * never served from Iceberg's catalog cache, whatever {@code cache-enabled} says.
 */
public final class TxnSparkCatalog extends IcebergCatalog implements TransactionCatalog {

  /** How the name of a branch begins where it stands for a table's. */
  private static final String BRANCH = "branch_";

  private static final String UNSAFE_CURE = "run it before BEGIN or after COMMIT";

  private final Set<Identifier> loaded = ConcurrentHashMap.newKeySet();
  private CatalogOptions options;
  private TxnHandle handle;
  private TxnCatalog tables;
  private TxnCatalog icebergsTables;
  private ReadMoments moments;
  private volatile TxnSession session;

  @Override
  protected Catalog buildIcebergCatalog(String name, CaseInsensitiveStringMap options) {
    return TxnSqlException.translating(
        () -> {
          Versions.check();
          this.options = new CatalogOptions(options.asCaseSensitiveMap());
          Map<String, String> timed = TimeOuts.in(this.options.ofDelegate());
          Catalog delegate = super.buildIcebergCatalog(name, new CaseInsensitiveStringMap(timed));
          handle =
              TxnHandle.open(
                  name,
                  CatalogOptions.identifying(timed),
                  delegate,
                  this::config,
                  TxnClock.system(),
                  DriverMetrics.INSTANCE);
          DriverMetrics.INSTANCE.watch(name, this.options.commitTable().toString(), handle);
          // Most often the session that this instance belongs to; see attach.
          session = TxnSession.of(SparkSession.active());
          session.add(this);
          icebergsTables = handle.catalog(() -> session.current(this));
          moments = new ReadMoments(icebergsTables::now);
          tables = icebergsTables.leavingReadsToTheEngine().readingAt(moments::ofThisThread);
          return tables;
        });
  }

  private TxnConfig config() {
    return options.config(session == null ? Map.of() : session.options());
  }

  @Override
  public TxnSparkCatalog attach(SparkSession toSession) {
    TxnSession owner = TxnSession.of(toSession);
    if (session != owner) {
      session.remove(this);
      session = owner;
      owner.add(this);
    }
    return this;
  }

  @Override
  public TxnHandle handle() {
    return handle;
  }

  @Override
  public Set<Identifier> loaded() {
    return Set.copyOf(loaded);
  }

  @Override
  public Set<Identifier> takeLoaded() {
    Set<Identifier> taken = Set.copyOf(loaded);
    loaded.removeAll(taken);
    return taken;
  }

  /** For programs that read tables by Iceberg's own API, where only the scans tell what. */
  @Override
  public Catalog icebergCatalog() {
    return icebergsTables;
  }

  // Loading

  @Override
  public Table loadTable(Identifier ident) throws NoSuchTableException {
    return loadForRead(ident, null, () -> loadAtItsMoment(ident));
  }

  /**
   * Past Iceberg's cache: another thread of the session may be loading the table into it, at an
   * earlier moment. What only selects something of a table Iceberg tells.
   */
  private Table loadAtItsMoment(Identifier ident) throws NoSuchTableException {
    Table named = named(ident, tables::loadTable);
    return named == null ? super.loadTable(ident) : named;
  }

  /** The table of a name; null for a path, and where there is none of that very name. */
  private Table named(Identifier ident, Function<TableIdentifier, org.apache.iceberg.Table> load) {
    if (ident instanceof PathIdentifier) {
      return null;
    }
    try {
      return Relations.table(load.apply(buildIdentifier(ident)));
    } catch (org.apache.iceberg.exceptions.NoSuchTableException e) {
      return null;
    }
  }

  @Override
  public Table loadTable(Identifier ident, String version) throws NoSuchTableException {
    return loadForRead(ident, new AsOfVersion(version), () -> super.loadTable(ident, version));
  }

  @Override
  public Table loadTable(Identifier ident, long timestampMicros) throws NoSuchTableException {
    return loadForRead(
        ident, new AsOfTimestamp(timestampMicros), () -> super.loadTable(ident, timestampMicros));
  }

  private Table loadForRead(Identifier ident, TimeTravelSpec asOf, Callable<Table> load) {
    return reading(
        ident,
        () -> {
          Table table = load.call();
          record(ident, transaction -> SparkReads.loaded(transaction, ident, table, asOf));
          return table;
        });
  }

  @Override
  public Table loadTable(Identifier ident, Set<TableWritePrivilege> privileges)
      throws NoSuchTableException {
    if (TxnExplainCommand.isRunning()) {
      return reading(ident, () -> super.loadTable(ident));
    }
    return writing(
        ident,
        () -> {
          Table table = loadForWrite(ident);
          loaded.add(ident);
          if (!Set.of(TableWritePrivilege.INSERT).containsAll(privileges)) {
            record(ident, transaction -> SparkReads.read(transaction, ident, table, null));
          }
          return table;
        });
  }

  @Override
  public Table loadTableAgain(TableIdentifier table) {
    return Relations.table(tables.loadTable(table));
  }

  @Override
  public Table loadTableAt(TableIdentifier table, long readTs) {
    return Relations.table(tables.loadTableAt(table, readTs));
  }

  @Override
  public void willWrite(Identifier ident) {
    if (config().register() != TxnConfig.Register.ALL) {
      return;
    }
    writing(
        ident,
        () -> {
          try {
            return loadForWrite(ident);
          } catch (NoSuchTableException e) {
            return null; // analysis reports it
          }
        });
  }

  @Override
  public void willReplace(Identifier ident) {
    if (!(ident instanceof PathIdentifier) && !TxnExplainCommand.isRunning()) {
      writing(
          ident,
          () -> {
            adoptBefore(ident);
            return null;
          });
    }
  }

  private Table loadForWrite(Identifier ident) throws NoSuchTableException {
    if (ident instanceof PathIdentifier) {
      return super.loadTable(ident);
    }
    Table named = named(ident, tables::loadTableForWrite);
    return named == null ? loadSelectedForWrite(ident) : named;
  }

  /**
   * What a name selects of the table that its namespace names. A branch's table comes first: by
   * that it may come under care. Of other names Iceberg tells first whether they select something.
   */
  private Table loadSelectedForWrite(Identifier ident) throws NoSuchTableException {
    TableIdentifier owner = TableIdentifier.of(ident.namespace());
    if (!ident.name().startsWith(BRANCH)) {
      Table selected = super.loadTable(ident);
      tables.loadTableForWrite(owner);
      return selected;
    }
    try {
      tables.loadTableForWrite(owner);
      moments.forget();
    } catch (org.apache.iceberg.exceptions.NoSuchTableException e) {
      throw new NoSuchTableException(ident);
    }
    return super.loadTable(ident);
  }

  private void record(Identifier ident, Consumer<Transaction> read) {
    Transaction transaction = session.current(this);
    if (ident instanceof PathIdentifier) {
      session.recordUnprotected(ident.name());
    } else if (transaction != null) {
      read.accept(transaction);
    }
  }

  @Override
  public boolean tableExists(Identifier ident) {
    return reading(
        ident,
        () ->
            ident instanceof PathIdentifier
                ? super.tableExists(ident)
                : tables.tableExists(buildIdentifier(ident)));
  }

  /** Whether the catalog underneath has a table that is dropped for who reads now. */
  boolean isDropped(Identifier ident) {
    return reading(
        ident,
        () -> !(ident instanceof PathIdentifier) && tables.isDropped(buildIdentifier(ident)));
  }

  /** The tables of a namespace that the catalog underneath has and that are dropped. */
  Set<Identifier> listDropped(String[] namespace) {
    return TxnSqlException.translating(
        () ->
            tables.listDropped(Namespace.of(namespace)).stream()
                .map(table -> Identifier.of(namespace, table.name()))
                .collect(Collectors.toSet()));
  }

  @Override
  public Identifier[] listTables(String[] namespace) {
    return TxnSqlException.translating(
        () -> {
          session.use();
          return super.listTables(namespace);
        });
  }

  /** {@code REFRESH TABLE}: files that a stranger has taken away are not looked for any more. */
  @Override
  public void invalidateTable(Identifier ident) {
    moments.forget();
    super.invalidateTable(ident);
  }

  // Changing tables

  @Override
  public Table createTable(
      Identifier ident, StructType schema, Transform[] transforms, Map<String, String> properties)
      throws TableAlreadyExistsException {
    return writing(ident, () -> super.createTable(ident, schema, transforms, properties));
  }

  @Override
  public StagedTable stageCreate(
      Identifier ident, StructType schema, Transform[] transforms, Map<String, String> properties)
      throws TableAlreadyExistsException {
    return writing(ident, () -> super.stageCreate(ident, schema, transforms, properties));
  }

  @Override
  public StagedTable stageReplace(
      Identifier ident, StructType schema, Transform[] transforms, Map<String, String> properties)
      throws NoSuchTableException {
    return writing(ident, () -> super.stageReplace(ident, schema, transforms, properties));
  }

  @Override
  public StagedTable stageCreateOrReplace(
      Identifier ident, StructType schema, Transform[] transforms, Map<String, String> properties) {
    return writing(ident, () -> super.stageCreateOrReplace(ident, schema, transforms, properties));
  }

  @Override
  public Table alterTable(Identifier ident, TableChange... changes) throws NoSuchTableException {
    return writing(
        ident,
        () -> {
          List<TableChange> others = new ArrayList<>(Arrays.asList(changes));
          if (others.removeIf(one -> RegisterRequest.is(one, options.commitTable(), name()))) {
            session.refuseInside("registering a table", UNSAFE_CURE);
            handle.register(buildIdentifier(ident));
          } else if (!(ident instanceof PathIdentifier)) {
            adoptBefore(ident);
          }
          return others.isEmpty()
              ? super.loadTable(ident)
              : super.alterTable(ident, others.toArray(new TableChange[0]));
        });
  }

  /** What strangers have appended to a table stands before its new columns. */
  private void adoptBefore(Identifier ident) {
    try {
      tables.beforeAlter(buildIdentifier(ident));
    } catch (org.apache.iceberg.exceptions.NoSuchTableException e) {
      return; // Iceberg reports it
    }
  }

  @Override
  public boolean dropTable(Identifier ident) {
    return writing(ident, () -> super.dropTable(ident));
  }

  @Override
  public boolean purgeTable(Identifier ident) {
    return writing(
        ident,
        () -> {
          session.refuseInside("DROP TABLE ... PURGE", "drop it without PURGE or after COMMIT");
          boolean ours =
              !(ident instanceof PathIdentifier)
                  && tables.tableExists(buildIdentifier(ident))
                  && tables.loadTable(buildIdentifier(ident)) instanceof TxnTable;
          return ours ? tables.dropTable(buildIdentifier(ident), true) : super.purgeTable(ident);
        });
  }

  @Override
  public void renameTable(Identifier from, Identifier to)
      throws NoSuchTableException, TableAlreadyExistsException {
    writing(
        from,
        () -> {
          session.refuseInside("RENAME", UNSAFE_CURE);
          super.renameTable(from, to);
          return null;
        });
  }

  // Procedures

  @Override
  public UnboundProcedure loadProcedure(Identifier ident) {
    UnboundProcedure own = ownProcedure(ident);
    return own == null ? super.loadProcedure(ident) : own;
  }

  /** A procedure of ours; null for one of Iceberg's that may run now. */
  UnboundProcedure ownProcedure(Identifier ident) {
    return TxnSqlException.translating(
        () -> {
          if (!Procedures.isSystem(ident.namespace())) {
            return null;
          }
          Procedures.checkAllowed(ident.name(), session);
          return Procedures.find(ident.name(), this);
        });
  }

  @Override
  protected List<String> ownProcedures(String[] namespace) {
    return Procedures.in(namespace);
  }

  // Plumbing

  private <T> T reading(Identifier ident, Callable<T> body) {
    return TxnSqlException.translating(
        () -> {
          session.use();
          bypassCache(ident);
          loaded.add(ident);
          return body.call();
        });
  }

  @Override
  protected <T> T writing(Identifier ident, Callable<T> body) {
    return TxnSqlException.translating(
        () -> {
          try {
            session.use();
            session.checkWrite(WriteTarget.table(this, name() + "." + ident));
            if (ident instanceof PathIdentifier) {
              session.refuseInside("a write to the path table " + ident, UNSAFE_CURE);
            }
            bypassCache(ident);
            return body.call();
          } catch (TxnException e) {
            session.refused();
            throw e;
          } finally {
            moments.forget(); // an analysis that changes a table goes on with what it has changed
          }
        });
  }

  /**
   * Iceberg's catalog cache, unless {@code cache-enabled} is false, is put around ours by a final
   * method. A table from it would be of another transaction, so nothing may be found there.
   */
  private void bypassCache(Identifier ident) {
    if (ident instanceof PathIdentifier) {
      return;
    }
    Catalog cache = super.icebergCatalog();
    cache.invalidateTable(buildIdentifier(ident));
    if (ident.namespace().length > 0) {
      cache.invalidateTable(TableIdentifier.of(ident.namespace()));
    }
  }
}
