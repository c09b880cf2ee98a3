package io.txns.iceberg.table;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import org.apache.iceberg.Table;
import org.junit.jupiter.api.Test;

/** Branches on which apply has kept what strangers wrote, and what is adopted from them. */
class ForeignBranchTest extends TwoTables {
  private Table later() {
    return lazy.catalog(() -> null).loadTable(id("shop.a"));
  }

  /** Keep a stranger's row on a branch, beside a logged one; gives the branch's name. */
  private String keep(long logged, long theirs) {
    append(later(), logged);
    append(outside.loadTable(id("shop.a")), theirs);
    long head = outside.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    assertThat(handle.apply()).isZero();
    return "txns-foreign-" + head;
  }

  /**
   * What stands below `txns.created` belongs to what was dropped.
   *
   * <p>1. A stranger's row is rejected. 2. The table is dropped, and created again, which is the
   * same physical one. 3. Somebody adopts; then once more, with a row of the new one open, too.
   */
  @Test
  void rowsOfADroppedTableAreNotAdoptedIntoTheNextOne() {
    append(outside.loadTable(id("shop.a")), 99);
    String older = "txns-foreign-" + outside.loadTable(id("shop.a")).currentSnapshot().snapshotId();
    handle.repairReject(id("shop.a"));
    ours.dropTable(id("shop.a"), false);
    append(ours.createTable(id("shop.a"), Lake.SCHEMA), 5);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a")))
        .hasMessageContaining(older + " holds belongs to the table that was dropped");
    String newer = keep(6, 77);
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(5L, 6L, 77L);
    assertThat(outside.loadTable(id("shop.a")).refs()).containsKey(older).doesNotContainKey(newer);
  }

  /** It stays, and is told of when it is all that is left. */
  @Test
  void aBranchThatCannotBeAdoptedIsInTheWayOfNoOther() {
    overwrite(outside.loadTable(id("shop.a")), 8);
    handle.repairReject(id("shop.a"));
    keep(2, 99);
    handle.repairAdopt(id("shop.a"));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 99L);
    assertThatThrownBy(() -> handle.repairAdopt(id("shop.a")))
        .hasMessageContaining("does more than append");
  }
}
