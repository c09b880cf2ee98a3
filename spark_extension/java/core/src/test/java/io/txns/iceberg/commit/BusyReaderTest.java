package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedDriver;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** SQLite refuses a COMMIT while others read its file, and some leave the transaction open then. */
@Timeout(120)
class BusyReaderTest {
  private static final TableIdentifier A = id("shop.a");

  /**
   * What was refused is not read back as what stands.
   *
   * <ol>
   *   <li>Somebody reads the catalog's file for longer than a writer waits.
   *   <li>The writer's COMMIT, or its UPDATE, which is one, is refused.
   *   <li>The writer asks for the head, by the connection that has tried: nothing is there.
   * </ol>
   */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void aCommitThatWasRefusedIsNotTakenForOneThatStands(String apply, @TempDir Path folder)
      throws SQLException {
    Map<String, String> options = new Lake(folder).options();
    String uri = options.get("uri").replaceFirst("\\?.*", "?journal_mode=DELETE&busy_timeout=100");
    TxnHandle writer = handle(options, uri.replaceFirst("jdbc:", "jdbc:hooked:"), apply);
    append(writer.catalog(() -> null).createTable(A, Lake.SCHEMA), 1);
    Transaction txn = writer.begin(BeginOptions.defaults());
    append(writer.catalog(() -> txn).loadTable(A), 2);
    List<SQLException> refused = new ArrayList<>();
    try (Connection reader = DriverManager.getConnection(uri);
        Statement statement = reader.createStatement()) {
      reader.setAutoCommit(false);
      ResultSet reading = statement.executeQuery("SELECT * FROM iceberg_tables");
      assertThat(reading.next()).isTrue();
      HookedDriver.Hook untilRefused =
          change -> {
            try {
              return change.run();
            } catch (SQLException e) {
              refused.add(e);
              reading.close();
              reader.rollback();
              throw e;
            }
          };
      HookedDriver.hook(untilRefused);
      HookedDriver.hookCommit(untilRefused);
      txn.commit();
    }
    assertThat(refused).singleElement().asString().contains("SQLITE_BUSY");
    TxnHandle other = handle(options, uri, apply);
    assertThat(ids(other.catalog(() -> null).loadTable(A))).containsExactly(1L, 2L);
  }

  private static TxnHandle handle(Map<String, String> options, String uri, String apply) {
    HookedDriver.hook(HookedDriver.Update::run);
    HookedDriver.hookCommit(HookedDriver.Update::run);
    Map<String, String> own = new TreeMap<>(options);
    own.put("uri", uri);
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", own);
    if (!catalog.namespaceExists(A.namespace())) {
      Lake.createNamespace(catalog, A.namespace());
    }
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", apply));
    return TxnHandle.openAlone("lake", own, catalog, config, Lake.CLOCK, TxnMetrics.NONE);
  }
}
