package io.txns.iceberg.meta;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnLogger;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.sql.Connection;
import java.sql.DatabaseMetaData;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Deque;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentLinkedDeque;
import org.apache.iceberg.ClientPool;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcClientPool;
import org.apache.iceberg.jdbc.UncheckedInterruptedException;
import org.apache.iceberg.jdbc.UncheckedSQLException;

/**
 * The database of Iceberg's JDBC catalog: its transactions and what is special about it. Its
 * connections are its own, and not the catalog's; one is kept.
 */
final class JdbcDatabase implements AutoCloseable {
  private static final TxnLogger LOG = TxnLogger.of(JdbcDatabase.class);
  static final String TABLES = "iceberg_tables";
  private static final String TYPE = "iceberg_type";

  /** More of them are closed when they are let go of: a process leads few swaps at once. */
  private static final int IDLE = 1;

  private final String catalogName;
  private final Connections connections;
  private final Deque<Connection> idle = new ConcurrentLinkedDeque<>();
  private final Dialect dialect;
  private final boolean hasTypes;

  /** Whether it has a queue that we may wait in, as far as it has said. */
  private volatile boolean mayQueue = true;

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

  /** Connections as the catalog opens its own. */
  private static final class Connections extends JdbcClientPool {
    private Connections(String uri, Map<String, String> options) {
      super(uri, options);
    }

    private Connection open() {
      return newClient();
    }
  }

  private JdbcDatabase(
      String catalogName, Connections connections, Dialect dialect, boolean hasTypes) {
    this.catalogName = catalogName;
    this.connections = connections;
    this.dialect = dialect;
    this.hasTypes = hasTypes;
  }

  /**
   * The database of a catalog; empty for one that does not change several rows in one transaction
   * as it is meant here.
   *
   * @param options those that the catalog was made with
   */
  static Optional<JdbcDatabase> of(String catalogName, String uri, Map<String, String> options) {
    Connections connections = new Connections(uri, options);
    Connection first = connections.open();
    try {
      Optional<Dialect> dialect = dialect(first.getMetaData());
      if (dialect.isPresent()) {
        boolean hasTypes = hasTypes(first.getMetaData());
        JdbcDatabase database = new JdbcDatabase(catalogName, connections, dialect.get(), hasTypes);
        database.idle.push(first);
        return Optional.of(database);
      }
    } catch (SQLException e) {
      closeQuietly(first);
      throw new UncheckedSQLException(e, "Cannot ask the database of a catalog what it is");
    }
    closeQuietly(first);
    return Optional.empty();
  }

  private static Optional<Dialect> dialect(DatabaseMetaData about) throws SQLException {
    String url = "" + about.getURL();
    return switch (about.getDatabaseProductName()) {
      case "PostgreSQL" -> Optional.of(Dialect.POSTGRESQL);
      case "SQLite" -> isInMemory(url) ? Optional.empty() : Optional.of(Dialect.SQLITE);
      default -> Optional.empty();
    };
  }

  private static boolean hasTypes(DatabaseMetaData about) throws SQLException {
    try (ResultSet column = about.getColumns(null, null, TABLES, TYPE)) {
      return column.next();
    }
  }

  /** Its connections have a database each, or share what nobody locks. */
  private static boolean isInMemory(String url) {
    return url.contains(":memory:") || url.contains("mode=memory") || url.endsWith("sqlite:");
  }

  String catalogName() {
    return catalogName;
  }

  /** Whether views are in the same table, and told by a column. */
  boolean hasTypes() {
    return hasTypes;
  }

  /** Whether it locks each row by itself, and lets each role do other things to it. */
  boolean hasLocksOfRows() {
    return !dialect.lock.isEmpty();
  }

  /** How many rows one statement moves: who is asked has to be waited for. */
  int together() {
    return dialect.together;
  }

  /** What a query ends with that locks its rows. */
  String lock() {
    return dialect.lock;
  }

  /** A list of pairs, as it stands behind IN. */
  String pairs(String pairs) {
    return String.format(dialect.pairs, pairs);
  }

  @Override
  public void close() {
    connections.close();
    Connection connection;
    while ((connection = idle.poll()) != null) {
      closeQuietly(connection);
    }
  }

  /**
   * Begin, and wait in the queue of a row where the database has such a thing.
   *
   * <p>Nothing rests on the queue: who may not wait in it, or waits for too long, goes without, and
   * so do all where the database has no such lock. Else anybody who may connect could keep writers
   * out.
   */
  private void begin(Connection connection, TableIdentifier first) throws SQLException {
    if (hasLocksOfRows() && mayQueue) {
      String wait = "; SELECT pg_advisory_xact_lock(" + queue(catalogName, first) + ")";
      try {
        run(connection, dialect.begin + wait);
        return;
      } catch (SQLException e) {
        if (DatabaseAnswer.isCutOff(e)) {
          throw e;
        }
        LOG.info(LogFields.of(first), "no turn in the queue of writers: {}", e.getMessage());
        run(connection, "ROLLBACK");
        mayQueue = DatabaseAnswer.isNotHad(e);
      }
    }
    run(connection, dialect.begin);
  }

  /**
   * The key of the lock that writers of a table wait for, one after the other (docs/spec.md 11.3).
   * Who waits for a row that changes may be overtaken each time by who has come later.
   */
  static long queue(String catalogName, TableIdentifier table) {
    String named = String.join("\n", "txns", catalogName, String.join("\n", key(table)));
    try {
      MessageDigest sha256 = MessageDigest.getInstance("SHA-256");
      return ByteBuffer.wrap(sha256.digest(named.getBytes(StandardCharsets.UTF_8))).getLong();
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /**
   * Ask as the catalog itself does, outside of any transaction.
   *
   * @throws UncheckedSQLException the database has no answer
   */
  <T> T asked(TableIdentifier table, ClientPool.Action<T, Connection, SQLException> query) {
    try {
      return connections.run(query);
    } catch (SQLException e) {
      throw new UncheckedSQLException(e, "Failed to get table %s", table);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new UncheckedInterruptedException(e, "Interrupted while getting table %s", table);
    }
  }

  /** A connection in a transaction; one that was kept may have been cut meanwhile. */
  Connection begun(TableIdentifier first) {
    Connection kept = idle.poll();
    if (kept != null) {
      try {
        begin(kept, first);
        return kept;
      } catch (SQLException e) {
        closeQuietly(kept);
        if (DatabaseAnswer.isNotHad(e)) {
          throw notLocked(e, first);
        }
      }
    }
    Connection fresh = connections.open();
    boolean isBegun = false;
    try {
      begin(fresh, first);
      isBegun = true;
      return fresh;
    } catch (SQLException e) {
      throw notLocked(e, first);
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

  /** What a wait for locks failed of: nothing was sent, so that what broke off is definite. */
  static RuntimeException notLocked(SQLException e, TableIdentifier table) {
    if (DatabaseAnswer.isCutOff(e)) { // a pooler, a fail-over, an administrator
      return new RowsBusyException(e, "cut off from the rows of %s", table);
    }
    return DatabaseAnswer.isNotHad(e) ? busy(e, table) : failure(e, table);
  }

  private static RowsBusyException busy(SQLException e, TableIdentifier table) {
    return new RowsBusyException(e, "others hold the rows of %s, or of a table with it", table);
  }

  static RuntimeException failure(SQLException e, TableIdentifier table) {
    if (DatabaseAnswer.isBusy(e)) {
      return busy(e, table);
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
