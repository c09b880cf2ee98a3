package io.txns.iceberg.meta;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnLogger;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.SQLIntegrityConstraintViolationException;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.FileIO;

/** The rows of one connection, in a transaction of its database. */
final class LockedJdbcRows extends LockedRows {
  private static final TxnLogger LOG = TxnLogger.of(LockedJdbcRows.class);

  /** After how long it says so who is at work under a lock. */
  private static final long SILENT_MS = 2_000;

  private static final String INSERT =
      "INSERT INTO iceberg_tables"
          + " (catalog_name, table_namespace, table_name, metadata_location%s)"
          + " VALUES (?, ?, ?, ?%s)";

  private static final String BACK = "ROLLBACK TO SAVEPOINT creation";

  private final JdbcDatabase database;
  private final Connection connection;
  private boolean isSent;
  private boolean isCommitted;
  private long saidAtMs = TxnClock.system().elapsedMs();

  LockedJdbcRows(
      JdbcDatabase database,
      KnownMetadata known,
      Set<TableIdentifier> tables,
      Map<TableIdentifier, String> located,
      Set<TableIdentifier> unlocked,
      FileIO files,
      Connection connection) {
    super(tables, located, unlocked, files, known);
    this.database = database;
    this.connection = connection;
  }

  @Override
  public void atWork() {
    if (TxnClock.system().elapsedMs() - saidAtMs < SILENT_MS) {
      return;
    }
    try {
      JdbcDatabase.run(connection, "SELECT 1");
    } catch (SQLException e) {
      LOG.debug("the next request tells", e);
    }
    saidAtMs = TxnClock.system().elapsedMs();
  }

  @Override
  protected void move(List<Moved> moves) {
    for (Moved moved : moves) {
      if (moved.from() == null) {
        insert(moved);
      }
    }
    List<Moved> there = moves.stream().filter(moved -> moved.from() != null).toList();
    int together = database.together();
    for (int start = 0; start < there.size(); start += together) {
      update(there.subList(start, Math.min(there.size(), start + together)));
    }
  }

  private void insert(Moved moved) {
    try (PreparedStatement statement = prepared(INSERT, moved)) {
      statement.executeUpdate();
    } catch (SQLException e) {
      if (isTaken(e)) {
        throw new CommitFailedException(e, "somebody has taken the name: %s", moved.table());
      }
      throw JdbcDatabase.failure(e, moved.table());
    }
  }

  /**
   * Tries it, and takes it back: of a policy nothing else tells. PostgreSQL ends a transaction that
   * it has refused something, unless it goes back.
   */
  @Override
  public boolean mayCreate(TableIdentifier table) {
    if (!database.hasLocksOfRows()) {
      return true;
    }
    Moved row = new Moved(table, null, "");
    try {
      // In one request, whose last part is not done where the row is refused.
      String tried = "SAVEPOINT creation; " + INSERT + "; " + BACK;
      try (PreparedStatement statement = prepared(tried, row)) {
        statement.execute();
        return true;
      } catch (SQLException e) {
        JdbcDatabase.run(connection, BACK);
        return !DatabaseAnswer.isDenied(e);
      }
    } catch (SQLException e) {
      throw JdbcDatabase.failure(e, table);
    }
  }

  private PreparedStatement prepared(String insert, Moved moved) throws SQLException {
    boolean hasTypes = database.hasTypes();
    List<String> values = new ArrayList<>(List.of(database.catalogName()));
    values.addAll(JdbcDatabase.key(moved.table()));
    values.add(moved.to());
    if (hasTypes) {
      values.add("TABLE");
    }
    String sql = String.format(insert, hasTypes ? ", iceberg_type" : "", hasTypes ? ", ?" : "");
    return JdbcDatabase.prepared(connection, sql, values);
  }

  private void update(List<Moved> moves) {
    List<String> values = new ArrayList<>();
    String sql = moves.size() == 1 ? updateOf(moves.get(0), values) : updateOf(moves, values);
    TableIdentifier first = moves.get(0).table();
    try (PreparedStatement statement = JdbcDatabase.prepared(connection, sql, values)) {
      if (statement.executeUpdate() != moves.size()) {
        List<TableIdentifier> names = moves.stream().map(Moved::table).toList();
        throw new CommitFailedException("a table has moved: %s", names);
      }
    } catch (SQLException e) {
      throw JdbcDatabase.failure(e, first);
    }
  }

  private String updateOf(Moved moved, List<String> values) {
    values.addAll(List.of(moved.to(), moved.from(), database.catalogName()));
    values.addAll(JdbcDatabase.key(moved.table()));
    values.add(moved.from());
    return "UPDATE iceberg_tables SET metadata_location = ?, previous_metadata_location = ?"
        + " WHERE catalog_name = ? AND table_namespace = ? AND table_name = ?"
        + " AND metadata_location = ?";
  }

  private String updateOf(List<Moved> moves, List<String> values) {
    for (Moved moved : moves) {
      values.addAll(JdbcDatabase.key(moved.table()));
      values.addAll(List.of(moved.from(), moved.to()));
    }
    values.add(database.catalogName());
    return "UPDATE iceberg_tables SET metadata_location = moved.there,"
        + " previous_metadata_location = moved.here FROM (VALUES "
        + String.join(", ", Collections.nCopies(moves.size(), "(?, ?, ?, ?)"))
        + ") AS moved (namespace, name, here, there) WHERE catalog_name = ?"
        + " AND table_namespace = moved.namespace AND table_name = moved.name"
        + " AND metadata_location = moved.here";
  }

  @Override
  protected void send() {
    isSent = true;
    try {
      JdbcDatabase.run(connection, "COMMIT");
      isCommitted = true;
    } catch (SQLException e) {
      RuntimeException failure = JdbcDatabase.failure(e, TableIdentifier.of(JdbcDatabase.TABLES));
      isSent = !(failure instanceof RowsBusyException);
      throw failure;
    }
  }

  @Override
  protected void end() {
    if (isCommitted) {
      database.letGo(connection);
    } else if (isSent) {
      JdbcDatabase.closeQuietly(connection); // nobody knows what it is in
    } else {
      database.rollBack(connection);
    }
  }

  /** Whether there is a row of that key, as Iceberg's catalog tells it. */
  private static boolean isTaken(SQLException e) {
    return e instanceof SQLIntegrityConstraintViolationException
        || "23505".equals(e.getSQLState())
        || ("" + e.getMessage()).contains("constraint failed");
  }
}
