package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.Test;

/** The queue of writers (docs/spec.md 11.3). */
class QueueKeyTest {

  /** Writers of both languages wait in one queue. */
  @Test
  void keysAreTheSpecifications() throws IOException {
    Path golden = Path.of("../../../docs/golden/queue_keys.json");
    for (JsonNode each : new ObjectMapper().readTree(golden.toFile())) {
      List<String> names = new ArrayList<>();
      each.get("namespace").forEach(level -> names.add(level.asText()));
      names.add(each.get("name").asText());

      TableIdentifier table = TableIdentifier.of(names.toArray(String[]::new));

      assertThat(JdbcDatabase.queue(each.get("catalog").asText(), table))
          .as(each.get("why").asText())
          .isEqualTo(each.get("key").asLong());
    }
  }
}
