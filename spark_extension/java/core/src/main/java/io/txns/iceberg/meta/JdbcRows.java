package io.txns.iceberg.meta;

import io.txns.iceberg.TxnException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * The rows of Iceberg's JDBC catalog, moved together in one transaction of its database
 * (docs/spec.md 11.3).
 *
 * <p>The catalog keeps one row a table in {@code iceberg_tables}. Who holds the lock of a row knows
 * that the table stands still, and that whoever held it before is done. Its connections are its
 * own: who waits for a row with one of the catalog's keeps it, and who holds the row would wait for
 * that.
 */
public final class JdbcRows implements Rows {
  private final Catalog catalog;
  private final JdbcDatabase database;
  private final KnownMetadata known;
  private volatile BaseTable any; // that the catalog has loaded: it has one way to all files

  private JdbcRows(Catalog catalog, JdbcDatabase database, KnownMetadata known) {
    this.catalog = catalog;
    this.database = database;
    this.known = known;
  }

  /**
   * The rows of a catalog; empty for one that cannot move several at once.
   *
   * @param options those that the catalog was made with
   */
  public static Optional<Rows> of(Catalog catalog, Map<String, String> options) {
    Map<String, String> all = new TreeMap<>(String.CASE_INSENSITIVE_ORDER);
    all.putAll(options);
    String uri = all.get(CatalogProperties.URI);
    // What extends it may have operations, or connections, of its own.
    if (!catalog.getClass().equals(JdbcCatalog.class) || uri == null) {
      return Optional.empty();
    }
    return JdbcDatabase.of(catalog.name(), uri, all)
        .map(database -> new JdbcRows(catalog, database, KnownMetadata.of(all)));
  }

  @Override
  public LockedRows locked(TableIdentifier first, Collection<TableIdentifier> others) {
    FileIO files = LocalWrites.through(files(first));
    Set<TableIdentifier> tables = new LinkedHashSet<>(List.of(first));
    tables.addAll(others);
    Connection connection = database.begun(first);
    boolean isLocked = false;
    try {
      LockedRows locked = lock(connection, first, tables, files);
      isLocked = true;
      return locked;
    } catch (SQLException e) {
      throw JdbcDatabase.notLocked(e, first);
    } finally {
      if (!isLocked) {
        database.rollBack(connection);
      }
    }
  }

  @Override
  public LockedRows lookedAt(TableIdentifier first, Map<TableIdentifier, TableMetadata> tables) {
    return new LookedAtRows(tables, LocalWrites.through(files(first)), known);
  }

  /**
   * Locks rows, and looks for those that it has not got: PostgreSQL locks no row that a policy lets
   * somebody read, and not write, and does not say so.
   */
  private LockedRows lock(
      Connection connection, TableIdentifier first, Set<TableIdentifier> tables, FileIO files)
      throws SQLException {
    Map<TableIdentifier, String> located = located(connection, first, tables, database.lock());
    Set<TableIdentifier> missing = new LinkedHashSet<>(tables);
    missing.removeAll(located.keySet());
    Map<TableIdentifier, String> unlocked =
        missing.isEmpty() || !database.hasLocksOfRows()
            ? Map.of()
            : located(connection, first, missing, "");
    if (unlocked.containsKey(first)) {
      throw TxnException.invalidUsage(
          "42501",
          "the catalog's database lets you read the commit table's row, and not write it: nothing"
              + " was committed; a policy on `iceberg_tables` has to let you, then COMMIT again,"
              + " or ROLLBACK; table=`"
              + first
              + "`");
    }
    located.putAll(unlocked);
    return new LockedJdbcRows(
        database, known, tables, located, unlocked.keySet(), files, connection);
  }

  @Override
  public void known(TableMetadata metadata) {
    known.add(metadata);
  }

  @Override
  public Optional<Table> load(TableIdentifier table) {
    BaseTable other = any;
    if (other == null) {
      return Optional.empty();
    }
    FileIO files = other.operations().io();
    TableOperations operations = new KnownOperations(catalog, table, files, known, this::location);
    return Optional.ofNullable(operations.current())
        .map(there -> CatalogUtil.fullTableName(catalog.name(), table))
        .map(name -> new BaseTable(operations, name, other.reporter()));
  }

  private String location(TableIdentifier table) {
    return database
        .asked(table, connection -> located(connection, table, Set.of(table), ""))
        .get(table);
  }

  @Override
  public void close() {
    database.close();
  }

  /**
   * How the catalog reaches files: it has one way for all of its tables. Null where there is not
   * even the first one: then there is nothing to read.
   */
  private FileIO files(TableIdentifier first) {
    if (any == null) {
      try {
        any = (BaseTable) catalog.loadTable(first);
      } catch (NoSuchTableException e) {
        return null;
      }
    }
    return any.operations().io();
  }

  /** The files of tables that there are, one first, then by name; locks their rows so. */
  private Map<TableIdentifier, String> located(
      Connection connection, TableIdentifier first, Collection<TableIdentifier> tables, String lock)
      throws SQLException {
    Map<List<String>, TableIdentifier> keys = new LinkedHashMap<>();
    tables.forEach(table -> keys.put(JdbcDatabase.key(table), table));
    String pairs = String.join(", ", Collections.nCopies(keys.size(), "(?, ?)"));
    String sql =
        "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
            + " WHERE catalog_name = ? AND (table_namespace, table_name) IN "
            + database.pairs(pairs)
            + (database.hasTypes() ? " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)" : "")
            + " ORDER BY CASE WHEN table_namespace = ? AND table_name = ? THEN 0 ELSE 1 END,"
            + " table_namespace, table_name"
            + lock;
    List<String> values = new ArrayList<>(List.of(database.catalogName()));
    keys.keySet().forEach(values::addAll);
    values.addAll(JdbcDatabase.key(first));
    Map<TableIdentifier, String> located = new LinkedHashMap<>();
    try (PreparedStatement statement = JdbcDatabase.prepared(connection, sql, values);
        ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        TableIdentifier table = keys.get(List.of(rows.getString(1), rows.getString(2)));
        located.put(table, rows.getString(3));
      }
    }
    return located;
  }
}
