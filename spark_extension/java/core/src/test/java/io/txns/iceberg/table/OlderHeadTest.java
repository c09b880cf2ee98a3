package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Head;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.Test;

/** A table is loaded by a head that others have moved on from. */
class OlderHeadTest extends TwoTables {
  private static final TableIdentifier OWN = id("shop.own");

  /**
   * Nor does what is no change of it.
   *
   * <ol>
   *   <li>Its owner has set a forgotten table back; somebody loads the head, and the table.
   *   <li>It is registered again, which leaves the head.
   *   <li>The archive is read.
   * </ol>
   */
  @Test
  void aRegistrationInALaterArchiveMakesNoTableOfItsOwnerSetBack() {
    String first = location(outside.createTable(OWN, Lake.SCHEMA));
    handle.register(OWN);
    append(ours.loadTable(OWN), 2);
    handle.forget(OWN);
    assertThat(handle.tidy()).isPositive();
    outside.dropTable(OWN, false);
    outside.registerTable(OWN, first);
    TxnHandle reader = lake.open();
    Head head = reader.services().log().load();
    BaseTable table = (BaseTable) lake.catalog().loadTable(OWN);
    lake.open().register(OWN);
    assertThat(handle.tidy()).isPositive();
    DataTables tables = reader.services().tables();
    assertThat(tables.live(OWN, table, head).registered()).isFalse();
    Head newer = reader.services().log().load();
    assertThatThrownBy(() -> tables.live(OWN, table, newer)).hasMessageContaining("set back");
  }

  private static String location(Table table) {
    return ((BaseTable) table).operations().current().metadataFileLocation();
  }
}
