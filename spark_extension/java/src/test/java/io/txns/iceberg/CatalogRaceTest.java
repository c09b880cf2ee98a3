package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.nio.file.Path;
import java.util.Map;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.expressions.Literal;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** CREATE and CREATE OR REPLACE outside a transaction, found by Iceberg's own catalog suite. */
class CatalogRaceTest {
  @TempDir Path folder;
  private Lake lake;
  private Catalog catalog;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    catalog = lake.open().catalog(() -> null);
  }

  /**
   * 1. T1 plans CREATE TABLE a. 2. T2 creates a. 3. T1 commits: its name was found absent before
   * the head that it was validated from, so nothing clashed, and a second table was logged.
   */
  @Test
  void aCreateThatLostTheRaceFails() {
    Transaction planned = catalog.buildTable(id("shop.a"), Lake.SCHEMA).createTransaction();
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    assertThatThrownBy(planned::commitTransaction).isInstanceOf(AlreadyExistsException.class);
    append(catalog.loadTable(id("shop.a")), 1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /**
   * 1. T1 plans a replacement of a by the columns that it has. 2. T2 replaces a by others. 3. T1
   * commits: its updates named no column, so T2's stayed, below T1's name in the log.
   */
  @Test
  void theLastReplacementIsWhole() {
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    Transaction last = catalog.buildTable(id("shop.a"), Lake.SCHEMA).replaceTransaction();
    Schema other = new Schema(Types.NestedField.required(1, "other", Types.StringType.get()));
    catalog
        .buildTable(id("shop.a"), other)
        .withProperties(Map.of("who", "second"))
        .replaceTransaction()
        .commitTransaction();
    last.commitTransaction();
    Table replaced = catalog.loadTable(id("shop.a"));
    assertThat(replaced.schema().columns())
        .extracting(Types.NestedField::name)
        .containsExactlyElementsOf(
            Lake.SCHEMA.columns().stream().map(Types.NestedField::name).toList());
    append(replaced, 1);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  /** DROP TABLE by a JVM program says nothing of files: a table under care keeps them. */
  @Test
  void dropWithoutAWordOfPurge() {
    catalog.createTable(id("shop.a"), Lake.SCHEMA);
    assertThat(catalog.dropTable(id("shop.a"))).isTrue();
    assertThat(catalog.tableExists(id("shop.a"))).isFalse();
    assertThat(catalog.dropTable(id("shop.a"))).isFalse();
  }

  /** Default values need format 3, which the catalog's own create has to be told. */
  @Test
  void aColumnWithADefault() {
    Schema schema =
        new Schema(
            Types.NestedField.required(1, "id", Types.LongType.get()),
            Types.NestedField.optional("n")
                .withId(2)
                .ofType(Types.IntegerType.get())
                .withInitialDefault(Literal.of(12))
                .withWriteDefault(Literal.of(12))
                .build());
    catalog.buildTable(id("shop.a"), schema).withProperty("format-version", "3").create();
    Table created = lake.catalog().loadTable(id("shop.a"));
    assertThat(created.schema().findField("n").initialDefault()).isEqualTo(12);
  }
}
