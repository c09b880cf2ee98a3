package io.txns.iceberg.simulation;

import io.txns.iceberg.meta.HasRows;
import io.txns.iceberg.meta.Rows;
import java.sql.SQLNonTransientConnectionException;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.BaseMetastoreCatalog;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.jdbc.UncheckedSQLException;

/**
 * A catalog that moves a pointer from one metadata file to the next; what it throws is what
 * Iceberg's JdbcCatalog throws at the same events.
 */
final class SwapCatalog extends BaseMetastoreCatalog implements SupportsNamespaces, HasRows {
  static final String WAREHOUSE = "memory://lake";

  private final String name;
  private final FileIO io = new SimulatedFileIO();
  private boolean queues;

  SwapCatalog(String name) {
    this.name = name;
  }

  /** What JdbcCatalog makes of a connection that fails in a command. */
  private static UncheckedSQLException failed(StepFailed e) {
    return new UncheckedSQLException(
        new SQLNonTransientConnectionException(e.getMessage()),
        "Failed to execute: %s",
        e.getMessage());
  }

  static String defaultLocation(TableIdentifier table) {
    return WAREHOUSE + "/" + String.join("/", table.namespace().levels()) + "/" + table.name();
  }

  @Override
  public String name() {
    return name;
  }

  @Override
  public Optional<Rows> rows() {
    return queues ? Optional.of(new SwapRows(io)) : Optional.empty();
  }

  /** Whether who uses it looks at rows before it moves the log. */
  void queues(boolean looks) {
    queues = looks;
  }

  @Override
  protected TableOperations newTableOps(TableIdentifier table) {
    return new SwapTableOperations(name, table, io);
  }

  @Override
  protected String defaultWarehouseLocation(TableIdentifier table) {
    return defaultLocation(table);
  }

  @Override
  public List<TableIdentifier> listTables(Namespace namespace) {
    try {
      return CatalogSteps.list(namespace);
    } catch (StepFailed e) {
      throw listFailed(e, namespace);
    }
  }

  private static RuntimeException listFailed(StepFailed e, Namespace namespace) {
    return e.is("NoSuchNamespace")
        ? new NoSuchNamespaceException("Namespace does not exist: %s", namespace)
        : failed(e);
  }

  @Override
  public boolean dropTable(TableIdentifier table, boolean purge) {
    TableMetadata last = purge ? newTableOps(table).current() : null;
    try {
      CatalogSteps.drop(table);
    } catch (StepFailed e) {
      if (e.is("NoSuchTable")) {
        return false;
      }
      throw failed(e);
    }
    if (last != null) {
      CatalogUtil.dropTableData(io, last);
    }
    return true;
  }

  @Override
  public void renameTable(TableIdentifier from, TableIdentifier to) {
    try {
      CatalogSteps.rename(from, to);
    } catch (StepFailed e) {
      throw switch (e.type()) {
        case "NoSuchTable" -> new NoSuchTableException("Table does not exist: %s", from);
        case "AlreadyExists" -> new AlreadyExistsException("Table already exists: %s", to);
        case "NoSuchNamespace" ->
            new NoSuchNamespaceException("Namespace does not exist: %s", to.namespace());
        default -> failed(e);
      };
    }
  }

  // ------------------------------------------------------------ namespaces

  /** Of two creators the second one hears of the database's key, as in JdbcCatalog. */
  @Override
  public void createNamespace(Namespace namespace, Map<String, String> properties) {
    if (namespaceExists(namespace)) {
      throw new AlreadyExistsException("Namespace already exists: %s", namespace);
    }
    try {
      CatalogSteps.createNamespace(namespace);
    } catch (StepFailed e) {
      throw failed(e);
    }
  }

  @Override
  public boolean namespaceExists(Namespace namespace) {
    return properties(namespace) != null;
  }

  @Override
  public Map<String, String> loadNamespaceMetadata(Namespace namespace) {
    Map<String, String> properties = properties(namespace);
    if (properties == null) {
      throw new NoSuchNamespaceException("Namespace does not exist: %s", namespace);
    }
    return properties;
  }

  private static Map<String, String> properties(Namespace namespace) {
    try {
      return CatalogSteps.namespace(namespace);
    } catch (StepFailed e) {
      throw failed(e);
    }
  }

  @Override
  public List<Namespace> listNamespaces(Namespace parent) {
    try {
      return CatalogSteps.namespaces(parent);
    } catch (StepFailed e) {
      throw listFailed(e, parent);
    }
  }

  @Override
  public boolean dropNamespace(Namespace namespace) {
    throw new UnsupportedOperationException("not in the simulation");
  }

  @Override
  public boolean setProperties(Namespace namespace, Map<String, String> properties) {
    throw new UnsupportedOperationException("not in the simulation");
  }

  @Override
  public boolean removeProperties(Namespace namespace, Set<String> properties) {
    throw new UnsupportedOperationException("not in the simulation");
  }
}
