package io.txns.iceberg.catalog;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.TxnCatalog;
import java.net.ServerSocket;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** How long a client waits for a catalog that does not answer. */
class TimeOutsTest {
  @Test
  void aRestClientWaitsAMinute() {
    assertThat(TimeOuts.in(Map.of("type", "rest", "uri", "https://lake")))
        .containsEntry("rest.client.connection-timeout-ms", "10000")
        .containsEntry("rest.client.socket-timeout-ms", "60000");
    assertThat(TimeOuts.in(Map.of("catalog-impl", "org.apache.iceberg.rest.RESTCatalog")))
        .containsKey("rest.client.socket-timeout-ms");
  }

  /** PostgreSQL's driver counts seconds, MySQL's milliseconds. */
  @Test
  void aDatabaseClientWaitsAMinute() {
    assertThat(TimeOuts.in(Map.of("type", "jdbc", "uri", "jdbc:postgresql://db/iceberg")))
        .containsEntry("jdbc.socketTimeout", "60")
        .containsEntry("jdbc.tcpKeepAlive", "true");
    assertThat(TimeOuts.in(Map.of("type", "jdbc", "uri", "jdbc:mysql://db/iceberg")))
        .containsEntry("jdbc.socketTimeout", "60000");
    Map<String, String> sqlite = Map.of("type", "jdbc", "uri", "jdbc:sqlite:file:/lake.db");
    assertThat(TimeOuts.in(sqlite)).isEqualTo(sqlite);
  }

  @Test
  void whatAUserHasSetStands() {
    Map<String, String> told =
        Map.of("type", "jdbc", "uri", "jdbc:postgresql://db/i", "JDBC.sockettimeout", "5");
    assertThat(TimeOuts.in(told))
        .containsEntry("JDBC.sockettimeout", "5")
        .doesNotContainKey("jdbc.socketTimeout");
    String uri = "jdbc:mysql://db/i?socketTimeout=5";
    assertThat(TimeOuts.in(Map.of("type", "jdbc", "uri", uri)))
        .doesNotContainKey("jdbc.socketTimeout")
        .containsKey("jdbc.connectTimeout");
  }

  /** A server that takes a connection and says nothing keeps nobody for ever. */
  @Test
  @Timeout(60)
  void aSilentServerIsGivenUp() throws Exception {
    try (ServerSocket silent = new ServerSocket(0);
        TxnCatalog catalog = new TxnCatalog()) {
      Map<String, String> options =
          Map.of(
              "txns.delegate.type", "rest",
              "txns.delegate.uri", "http://localhost:" + silent.getLocalPort(),
              "txns.delegate.rest.client.socket-timeout-ms", "300",
              "txns.delegate.rest.client.max-retries", "1");
      assertThatThrownBy(() -> catalog.initialize("lake", options))
          .hasStackTraceContaining("imed out");
    }
  }
}
