package io.txns.iceberg.table;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.Test;

/** Where an entry left main, whatever strangers have done to it since (docs/spec.md, 9.1). */
class LoggedStateTest {
  private static final Path GOLDEN =
      Path.of("..", "..", "..", "docs", "golden", "logged_states.json");

  @Test
  void theLoggedStateIsThatOfTheSpecification() throws IOException {
    for (JsonNode golden : new ObjectMapper().readTree(GOLDEN.toFile())) {
      TableMetadata base = TableMetadataParser.fromJson(golden.get("base").toString());
      TableMark mark =
          new TableMark(TableIdentifier.of("txns", "commits"), "", 0, TableMark.applied(base));
      Snapshot found = LoggedState.of(base, mark).snapshot();
      JsonNode wanted = golden.get("loggedSnapshotId");
      assertThat(found == null ? null : (Long) found.snapshotId())
          .as(golden.get("why").asText())
          .isEqualTo(wanted.isNull() ? null : (Long) wanted.asLong());
    }
  }
}
