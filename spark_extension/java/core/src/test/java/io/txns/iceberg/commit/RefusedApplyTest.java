package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.Lake;
import io.txns.iceberg.LoggedLines;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.logging.log4j.Level;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What people are told of a change that no swap can apply. */
class RefusedApplyTest extends TwoTables {
  @RegisterExtension final LoggedLines logged = new LoggedLines();

  /** A swap that is refused while nobody moves the table is no lost race: people see why. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whatNoSwapCanEndIsSaid(boolean moved) {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    BeforeCommit refusing =
        new BeforeCommit(
            lake.catalog(),
            id("shop.a"),
            () -> {
              if (moved) {
                append(lake.catalog().loadTable(id("shop.a")), 9);
              }
              throw new CommitFailedException("not now, nor later");
            });
    TxnHandle refused = TxnHandle.open("lake", refusing, Lake.INLINE, Lake.CLOCK);
    assertThat(refused.apply()).isEqualTo(1);
    assertThat(logged.of(Level.WARN))
        .hasSize(moved ? 0 : 1)
        .allMatch(line -> line.text().startsWith("entries stay unapplied"))
        .allMatch(line -> "shop.a".equals(line.context().get("table")));
  }
}
