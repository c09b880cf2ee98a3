package io.txns.iceberg.meta;

import io.txns.iceberg.TxnException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.jdbc.JdbcClientPool;
import org.apache.iceberg.jdbc.UncheckedSQLException;

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
  static final String TABLES = "iceberg_tables";
  private static final String TYPE = "iceberg_type";

  /** More of them are closed when they are let go of: a process leads few swaps at once. */
  private static final int IDLE = 1;

  private final Catalog catalog;
  private final Connections connections;
  private final KnownMetadata known = new KnownMetadata();
  private final Deque<Connection> idle = new ConcurrentLinkedDeque<>();
  private final Database database;
  private volatile FileIO io;

  /** How a database begins a transaction, and how it compares pairs. */
  enum Dialect {
    POSTGRESQL(
        "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout = '10s';"
            + " SET LOCAL idle_in_transaction_session_timeout = '8s'",
        "(%s)",
        " FOR UPDATE",
        1000),
    /** One lock for all: who takes it later, to write, may find that somebody has written. */
    SQLITE("BEGIN IMMEDIATE", "(VALUES %s)", "", 1);

    private final String begin;
    private final String pairs;
    private final String lock;
    private final int together;

    Dialect(String begin, String pairs, String lock, int together) {
      this.begin = begin;
      this.pairs = pairs;
      this.lock = lock;
      this.together = together;
    }
  }

  /**
   * What is known of the database.
   *
   * @param hasTypes whether views are in the same table, and told by a column
   */
  record Database(Dialect dialect, boolean hasTypes) {
    /** Whether it locks each row by itself, and lets each role do other things to it. */
    boolean hasLocksOfRows() {
      return !dialect.lock.isEmpty();
    }

    /** How many rows one statement moves: who is asked has to be waited for. */
    int together() {
      return dialect.together;
    }

    /** Empty for one that does not change several rows in one transaction as it is meant here. */
    static Optional<Database> of(Connection connection) throws SQLException {
      DatabaseMetaData about = connection.getMetaData();
      String url = "" + about.getURL();
      Dialect dialect =
          switch (about.getDatabaseProductName()) {
            case "PostgreSQL" -> Dialect.POSTGRESQL;
            case "SQLite" -> isInMemory(url) ? null : Dialect.SQLITE;
            default -> null;
          };
      if (dialect == null) {
        return Optional.empty();
      }
      try (ResultSet column = about.getColumns(null, null, TABLES, TYPE)) {
        return Optional.of(new Database(dialect, column.next()));
      }
    }

    /** Its connections have a database each, or share what nobody locks. */
    private static boolean isInMemory(String url) {
      return url.contains(":memory:") || url.contains("mode=memory") || url.endsWith("sqlite:");
    }
  }

  /** Connections as the catalog opens its own. */
  private static final class Connections extends JdbcClientPool {
    private Connections(String uri, Map<String, String> options) {
      super(1, uri, options);
    }

    private Connection open() {
      return newClient();
    }
  }

  private JdbcRows(Catalog catalog, Connections connections, Database database) {
    this.catalog = catalog;
    this.connections = connections;
    this.database = database;
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
    Connections connections = new Connections(uri, all);
    Connection first = connections.open();
    try {
      Optional<Database> database = Database.of(first);
      if (database.isPresent()) {
        JdbcRows rows = new JdbcRows(catalog, connections, database.get());
        rows.idle.push(first);
        return Optional.of(rows);
      }
    } catch (SQLException e) {
      closeQuietly(first);
      throw new UncheckedSQLException(e, "Cannot ask the database of a catalog what it is");
    }
    closeQuietly(first);
    return Optional.empty();
  }

  @Override
  public LockedRows locked(TableIdentifier first, Collection<TableIdentifier> others) {
    FileIO files = files(first);
    Set<TableIdentifier> tables = new LinkedHashSet<>(List.of(first));
    tables.addAll(others);
    Connection connection = begun(first);
    boolean isLocked = false;
    try {
      LockedRows locked = lock(connection, first, tables, files);
      isLocked = true;
      return locked;
    } catch (SQLException e) {
      throw failure(e, first);
    } finally {
      if (!isLocked) {
        rollBack(connection);
      }
    }
  }

  @Override
  public LockedRows lookedAt(TableIdentifier first, Map<TableIdentifier, TableMetadata> tables) {
    return new LookedAtRows(tables, files(first), known);
  }

  /**
   * Locks rows, and looks for those that it has not got: PostgreSQL locks no row that a policy lets
   * somebody read, and not write, and does not say so.
   */
  private LockedRows lock(
      Connection connection, TableIdentifier first, Set<TableIdentifier> tables, FileIO files)
      throws SQLException {
    String lock = database.dialect().lock;
    Map<TableIdentifier, String> located = located(connection, first, tables, lock);
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
    return new LockedJdbcRows(this, tables, located, unlocked.keySet(), files, connection);
  }

  @Override
  public void known(TableMetadata metadata) {
    known.add(metadata);
  }

  @Override
  public void close() {
    Connection connection;
    while ((connection = idle.poll()) != null) {
      closeQuietly(connection);
    }
  }

  /** What has been read of files, be it under a lock or not. */
  KnownMetadata known() {
    return known;
  }

  Database database() {
    return database;
  }

  String catalogName() {
    return catalog.name();
  }

  /**
   * How the catalog reaches files: it has one way for all of its tables. Null where there is not
   * even the first one: then there is nothing to read.
   */
  private FileIO files(TableIdentifier first) {
    if (io == null) {
      try {
        io = ((HasTableOperations) catalog.loadTable(first)).operations().io();
      } catch (NoSuchTableException e) {
        return null;
      }
    }
    return io;
  }

  /** A connection in a transaction; one that was kept may have been cut meanwhile. */
  private Connection begun(TableIdentifier first) {
    Connection kept = idle.poll();
    if (kept != null) {
      try {
        run(kept, database.dialect().begin);
        return kept;
      } catch (SQLException e) {
        closeQuietly(kept);
        if (DatabaseAnswer.isBusy(e)) {
          throw failure(e, first);
        }
      }
    }
    Connection fresh = connections.open();
    boolean isBegun = false;
    try {
      run(fresh, database.dialect().begin);
      isBegun = true;
      return fresh;
    } catch (SQLException e) {
      throw failure(e, first);
    } finally {
      if (!isBegun) {
        closeQuietly(fresh);
      }
    }
  }

  static void run(Connection connection, String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  /** The files of tables that there are, one first, then by name; locks their rows so. */
  private Map<TableIdentifier, String> located(
      Connection connection, TableIdentifier first, Collection<TableIdentifier> tables, String lock)
      throws SQLException {
    Map<List<String>, TableIdentifier> keys = new LinkedHashMap<>();
    tables.forEach(table -> keys.put(key(table), table));
    String pairs = String.join(", ", Collections.nCopies(keys.size(), "(?, ?)"));
    String sql =
        "SELECT table_namespace, table_name, metadata_location FROM iceberg_tables"
            + " WHERE catalog_name = ? AND (table_namespace, table_name) IN "
            + String.format(database.dialect().pairs, pairs)
            + (database.hasTypes() ? " AND (iceberg_type = 'TABLE' OR iceberg_type IS NULL)" : "")
            + " ORDER BY CASE WHEN table_namespace = ? AND table_name = ? THEN 0 ELSE 1 END,"
            + " table_namespace, table_name"
            + lock;
    List<String> values = new ArrayList<>(List.of(catalog.name()));
    keys.keySet().forEach(values::addAll);
    values.addAll(key(first));
    Map<TableIdentifier, String> located = new LinkedHashMap<>();
    try (PreparedStatement statement = prepared(connection, sql, values);
        ResultSet rows = statement.executeQuery()) {
      while (rows.next()) {
        TableIdentifier table = keys.get(List.of(rows.getString(1), rows.getString(2)));
        located.put(table, rows.getString(3));
      }
    }
    return located;
  }

  static PreparedStatement prepared(Connection connection, String sql, List<String> values)
      throws SQLException {
    PreparedStatement statement = connection.prepareStatement(sql);
    for (int number = 1; number <= values.size(); number++) {
      statement.setString(number, values.get(number - 1));
    }
    return statement;
  }

  /** What a table's row is found by, as Iceberg writes it. */
  static List<String> key(TableIdentifier table) {
    return List.of(String.join(".", table.namespace().levels()), table.name());
  }

  static RuntimeException failure(SQLException e, TableIdentifier table) {
    if (DatabaseAnswer.isBusy(e)) {
      return new RowsBusyException(e, "others hold the rows of %s, or of a table with it", table);
    }
    UncheckedSQLException failure =
        new UncheckedSQLException(e, "Cannot move rows of the catalog: %s", e.getMessage());
    DatabaseAnswer.refuseDenied(failure);
    return failure;
  }

  /** End what was begun, and keep the connection for others where that is known to be done. */
  void rollBack(Connection connection) {
    try {
      run(connection, "ROLLBACK");
    } catch (SQLException | RuntimeException e) {
      closeQuietly(connection);
      return;
    }
    letGo(connection);
  }

  void letGo(Connection connection) {
    if (idle.size() < IDLE) {
      idle.push(connection);
    } else {
      closeQuietly(connection);
    }
  }

  static void closeQuietly(Connection connection) {
    Cleaning.of(
        "a connection",
        () -> {
          try {
            connection.close();
          } catch (SQLException e) {
            throw new UncheckedSQLException(e, "Failed to close connection");
          }
        });
  }
}
