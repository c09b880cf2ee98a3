package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Reservation;
import java.util.List;
import org.junit.jupiter.api.Test;

/** What somebody has reserved is carried by every record after it (docs/spec.md 11.4). */
class CarriedReservationsTest extends TwoTables {
  private static final String TABLE = "5f1d9c5e-7a31-4c5c-9f0b-2f6f6f0c6a01";
  private static final Reservation ANOTHERS =
      new Reservation("another", List.of(TABLE), 1, 2, 3000);
  private static final Reservation OURS = new Reservation("ours", List.of(TABLE), 2, 1, 120_000);

  @Test
  void aTransactionCarriesThemAndATidyDoes() {
    reserve(ANOTHERS, OURS);
    append(ours.loadTable(id("shop.a")), 2);
    assertThat(reserved()).containsExactly(ANOTHERS, OURS);
    handle.tidy();
    assertThat(reserved()).containsExactly(ANOTHERS, OURS);
  }

  /** It has been used. */
  @Test
  void aTransactionLeavesOutWhatWasReservedForIt() {
    reserve(ANOTHERS, OURS);
    Transaction transaction = handle.begin(BeginOptions.defaults().withId("ours"));
    append(handle.catalog(() -> transaction).loadTable(id("shop.a")), 2);
    transaction.commit();
    assertThat(reserved()).containsExactly(ANOTHERS);
  }

  private void reserve(Reservation... reservations) {
    CommitLog log = new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK);
    Head head = log.load();
    Entry advance =
        new Entry(
            EntryKind.ADVANCE,
            head.upper() + 1,
            head.upper(),
            head.upper() + 1,
            head.state().tidiedUpto(),
            head.upper(),
            "advance",
            Isolation.SNAPSHOT,
            "",
            "",
            List.of(),
            Entry.Payload.NONE);
    List<Entry> entries = List.of(advance.reserving(List.of(reservations)));
    assertThat(log.append(head, entries).outcome()).isEqualTo(CommitLog.Swap.Outcome.WON);
  }

  private List<Reservation> reserved() {
    return new CommitLog(lake.catalog(), id("txns.commits"), Lake.CLOCK).load().state().reserved();
  }
}
