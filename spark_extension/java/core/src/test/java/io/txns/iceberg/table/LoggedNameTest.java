package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.catalog.Transaction;
import java.util.Map;
import java.util.function.Consumer;
import java.util.stream.Stream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * A name that the log has given to a table, and that the catalog does not have yet: whoever takes
 * it there would put what was committed in quarantine.
 */
class LoggedNameTest extends TwoTables {
  private static final TableIdentifier TAKEN = id("shop.n");

  @BeforeEach
  void create() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).createTable(TAKEN, Lake.SCHEMA), 5);
    txn.commit();
    assertThat(outside.tableExists(TAKEN)).isFalse();
  }

  private static String location(LoggedNameTest test) {
    return ((BaseTable) test.outside.loadTable(id("shop.b")))
        .operations()
        .current()
        .metadataFileLocation();
  }

  static Stream<Arguments> takers() {
    return Stream.of(
        taker("rename", test -> test.ours.renameTable(id("shop.a"), TAKEN)),
        taker(
            "rename of a plain table",
            test -> {
              test.outside.createTable(id("shop.plain"), Lake.SCHEMA);
              test.ours.renameTable(id("shop.plain"), TAKEN);
            }),
        taker("register", test -> test.ours.registerTable(TAKEN, location(test))),
        taker(
            "plain table",
            test ->
                test.lake
                    .open(Map.of("txns.register", "none"))
                    .catalog(() -> null)
                    .createTable(TAKEN, Lake.SCHEMA)),
        taker("view", test -> view(test, "shop.n")),
        taker(
            "rename of a view",
            test -> {
              view(test, "shop.view");
              test.ours.renameView(id("shop.view"), TAKEN);
            }));
  }

  private static void view(LoggedNameTest test, String name) {
    test.ours
        .buildView(id(name))
        .withSchema(Lake.SCHEMA)
        .withDefaultNamespace(id(name).namespace())
        .withQuery("spark", "SELECT 1")
        .create();
  }

  private static Arguments taker(String name, Consumer<LoggedNameTest> deed) {
    return Arguments.of(name, deed);
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("takers")
  void isRefused(String name, Consumer<LoggedNameTest> deed) {
    long upper = handle.upper();
    assertThatThrownBy(() -> deed.accept(this))
        .isInstanceOf(AlreadyExistsException.class)
        .hasMessageContaining("Table already exists: shop.n");
    assertThat(handle.upper()).isEqualTo(upper); // nothing was forgotten
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(handle.apply()).isZero();
    assertThat(lake.plainIds("shop.n")).containsExactly(5L);
  }

  /** The other way round: the creation could never be applied. */
  @Test
  void noTableIsLoggedUnderTheNameOfAView() {
    view(this, "shop.view");
    assertThatThrownBy(() -> ours.createTable(id("shop.view"), Lake.SCHEMA))
        .isInstanceOf(AlreadyExistsException.class);
    Transaction txn = lazy.begin(BeginOptions.defaults());
    TxnCatalog tables = lazy.catalog(() -> txn);
    assertThatThrownBy(() -> tables.createTable(id("shop.view"), Lake.SCHEMA))
        .isInstanceOf(AlreadyExistsException.class);
    var orReplace = ours.buildTable(id("shop.view"), Lake.SCHEMA);
    assertThatThrownBy(orReplace::createOrReplaceTransaction)
        .isInstanceOf(AlreadyExistsException.class);
    txn.rollback();
    assertThat(handle.apply()).isZero();
  }

  /** Of a table that somebody dropped the newest metadata is all that there is. */
  @Test
  void itsOwnMetadataMayBeRegistered() {
    Transaction both = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> both).createTable(id("shop.m"), Lake.SCHEMA), 1);
    append(lazy.catalog(() -> both).loadTable(id("shop.b")), 7);
    both.commit();
    assertThat(lazy.apply(id("shop.m"))).isZero();
    append(lazy.catalog(() -> null).loadTable(id("shop.m")), 2);
    assertThat(lazy.apply(id("shop.m"))).isZero();
    lazy.tidy();
    String newest =
        ((BaseTable) outside.loadTable(id("shop.m"))).operations().current().metadataFileLocation();
    outside.dropTable(id("shop.m"), false);
    assertThatThrownBy(() -> lake.txnIds("shop.m")).hasMessageContaining("register its newest");
    ours.registerTable(id("shop.m"), newest);
    assertThat(lake.txnIds("shop.m")).containsExactly(1L, 2L);
  }
}
