package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Lake;
import io.txns.iceberg.LoggedLines;
import io.txns.iceberg.TwoTables;
import java.io.IOException;
import java.net.URI;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.logging.log4j.Level;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;

/** A table that cannot be read: what it has is not known, and others go on. */
class UnreadableTableTest extends TwoTables {
  @RegisterExtension final LoggedLines logged = new LoggedLines();

  /** Entries before its own leave the head, its own stay, and are there when it can be read. */
  @Test
  void aTidyLeavesItsEntries() throws IOException {
    append(ours.loadTable(id("shop.b")), 2);
    append(ours.loadTable(id("shop.a")), 3);
    Path file = metadataFile(id("shop.b"));
    Path aside = Files.move(file, file.resolveSibling("aside"));
    int before = Lake.standing(handle).size();
    assertThat(handle.tidy()).isPositive();
    assertThat(Lake.standing(handle)).hasSizeBetween(1, before - 1);
    assertThat(handle.transactions()).hasSizeGreaterThan(before - 1);
    assertThat(logged.of(Level.WARN))
        .isNotEmpty()
        .allMatch(line -> "shop.b".equals(line.context().get("table")));

    Files.move(aside, file);
    assertThat(handle.tidy()).isPositive();
    assertThat(lake.txnIds("shop.b")).containsExactly(2L);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
  }

  private Path metadataFile(TableIdentifier table) {
    String location =
        ((BaseTable) outside.loadTable(table)).operations().current().metadataFileLocation();
    return location.startsWith("file:") ? Path.of(URI.create(location)) : Path.of(location);
  }
}
