package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import org.apache.iceberg.BaseTable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** A table that somebody set back to older metadata, when the log has archived what it lacks. */
class SetBackTest extends TwoTables {
  private String newest;

  @BeforeEach
  void setBack() {
    String older = location();
    append(ours.loadTable(id("shop.a")), 2);
    append(ours.loadTable(id("shop.b")), 7);
    assertThat(handle.tidy()).isPositive();
    newest = location();
    registerAs(older);
  }

  private String location() {
    return ((BaseTable) lake.catalog().loadTable(id("shop.a")))
        .operations()
        .current()
        .metadataFileLocation();
  }

  private void registerAs(String location) {
    outside.dropTable(id("shop.a"), false);
    outside.registerTable(id("shop.a"), location);
  }

  @Test
  void isNotWritten() {
    assertThatThrownBy(() -> append(ours.loadTable(id("shop.a")), 3))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("set back");
    Transaction txn = handle.begin(BeginOptions.defaults());
    assertThatThrownBy(
            () -> append(lake.open().catalog(() -> txn).loadTableForWrite(id("shop.a")), 3))
        .hasMessageContaining("set back");
    txn.rollback();
    append(ours.loadTable(id("shop.b")), 8);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(lake.plainIds("shop.b")).containsExactly(7L, 8L);
  }

  /** What was acknowledged is not missing without an error; older timestamps see what they saw. */
  @Test
  void isNotReadAboveWhatItHas() {
    assertThatThrownBy(() -> lake.txnIds("shop.a"))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("set back")
        .hasMessageContaining("'adopt'");
    assertThat(lake.txnIds("shop.b")).containsExactly(7L);
    long applied =
        Long.parseLong(outside.loadTable(id("shop.a")).properties().get("txns.applied"));
    assertThat(handle.loadAt(id("shop.a"), applied).view().metadata().currentSnapshot()).isNotNull();
  }

  /** Whoever set the table back can undo it: nothing was written to the older one. */
  @Test
  void newestMetadataAgainEndsIt() {
    registerAs(newest);
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** Reject has nothing to put back, and says so. */
  @Test
  void adoptTakesTheTableAsItStands() {
    assertThatThrownBy(() -> handle.repairReject(id("shop.a"))).hasMessageContaining("'adopt'");
    handle.repairAdopt(id("shop.a"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 3L);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
  }
}
