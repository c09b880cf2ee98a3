package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Another table under the name of one that the log has created (docs/spec.md 9.4). */
class TakenNameTest extends TwoTables {
  /** `shop.n` with a row, logged and not applied; somebody has created another one meanwhile. */
  @BeforeEach
  void takeTheName() {
    Transaction txn = lazy.begin(BeginOptions.defaults());
    append(lazy.catalog(() -> txn).createTable(id("shop.n"), Lake.SCHEMA), 1);
    txn.commit();
    append(outside.createTable(id("shop.n"), Lake.SCHEMA), 7);
  }

  private void assertCured(ThrowingCallable refused) {
    assertThatThrownBy(refused)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageMatching("(?s).*rename .* away .*system\\.apply.*")
        .hasMessageNotContaining("system.repair");
  }

  /** Writers and who asks for a repair are told what ends it; nothing is logged. */
  @Test
  void aRepairEndsNothingWhereAnotherTableHasTheName() {
    long before = handle.services().log().load().upper();
    assertCured(() -> append(lazy.catalog(() -> null).loadTable(id("shop.n")), 2));
    assertCured(() -> handle.repairAdopt(id("shop.n")));
    assertCured(() -> handle.repairReject(id("shop.n")));
    assertCured(() -> handle.register(id("shop.n")));
    assertThat(handle.services().log().load().upper()).isEqualTo(before);
    assertThat(lake.txnIds("shop.n")).containsExactly(1L);
  }

  /** Which is what the message says; nothing of either is lost. */
  @Test
  void theLoggedTableIsThereWhenTheOtherOneHasAnotherName() {
    outside.renameTable(id("shop.n"), id("shop.theirs"));
    assertThat(handle.apply()).isZero();
    append(ours.loadTable(id("shop.n")), 2);
    assertThat(lake.plainIds("shop.n")).containsExactly(1L, 2L);
    assertThat(lake.plainIds("shop.theirs")).containsExactly(7L);
  }
}
