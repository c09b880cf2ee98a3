package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.catalog.Transaction;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Locale;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.junit.jupiter.api.Test;

/**
 * A table whose uuid another engine has written in capital letters, which pyiceberg makes small.
 */
class CapitalUuidTest extends TwoTables {
  @Test
  void itIsUnderCareByItsUuidInSmallLetters() throws IOException {
    String uuid = capitals();
    assertThat(handle.register(id("shop.c"))).isPositive();
    append(ours.loadTable(id("shop.c")), 1);
    append(lazy.catalog(() -> null).loadTable(id("shop.c")), 2);
    assertThat(Lake.ids(ours.loadTable(id("shop.c")))).containsExactlyInAnyOrder(1L, 2L);
    assertThat(handle.apply()).isZero();
    Transaction txn = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> txn).loadTableForWrite(id("shop.c")), 3);
    txn.commit();
    assertThat(Lake.ids(outside.loadTable(id("shop.c")))).containsExactlyInAnyOrder(1L, 2L, 3L);
    assertThat(shown().properties()).containsEntry("txns.table-uuid", uuid);
    assertThat(handle.tidy()).isPositive();
    assertThat(handle.transactions()).filteredOn(row -> "shop.c".equals(row.table())).hasSize(4);
  }

  private TableMetadata shown() {
    return ((BaseTable) outside.loadTable(id("shop.c"))).operations().current();
  }

  /** Make a table, and write its uuid in capital letters; gives it in small ones. */
  private String capitals() throws IOException {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    String uuid = shown().uuid();
    Path path = Path.of(shown().metadataFileLocation().replaceFirst("^file:/*", "/"));
    String text = Files.readString(path);
    Files.delete(path.resolveSibling("." + path.getFileName() + ".crc"));
    Files.writeString(path, text.replace(uuid, uuid.toUpperCase(Locale.ROOT)));
    assertThat(shown().uuid()).isNotEqualTo(uuid);
    return uuid;
  }
}
