package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.Map;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** A dropped name that is created again, on its physical table (docs/spec.md 6.5). */
class RecreatedTableTest extends TwoTables {
  /** Under whom new tables do not come under care there is no table that would have its rows. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whoLeavesTablesOutOfCareDoesNotCreateIt(boolean orReplace) {
    TxnCatalog none = lake.open(Map.of("txns.register", "none")).catalog(() -> null);
    ours.dropTable(id("shop.a"), false);
    var builder = none.buildTable(id("shop.a"), Lake.SCHEMA);
    assertThatThrownBy(orReplace ? builder::createOrReplaceTransaction : builder::createTransaction)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("txns.register=created")
        .hasMessageContaining("system.purge('shop.a')");
    append(ours.createTable(id("shop.a"), Lake.SCHEMA), 5);
    assertThat(ids(none.loadTable(id("shop.a")))).containsExactly(5L);
    none.buildTable(id("shop.c"), Lake.SCHEMA).createOrReplaceTransaction().commitTransaction();
    assertThat(outside.tableExists(id("shop.c"))).isTrue();
  }
}
