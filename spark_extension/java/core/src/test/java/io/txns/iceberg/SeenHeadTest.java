package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.catalog.Transaction;
import java.util.OptionalLong;
import org.junit.jupiter.api.Test;

/** What a handle tells of the head that it has seen, to whoever watches a lake. */
class SeenHeadTest extends TwoTables {

  private long commit(TxnHandle with) {
    Transaction txn = with.begin(BeginOptions.defaults());
    append(with.catalog(() -> txn).loadTable(id("shop.a")), 7);
    return txn.commit().commitTs();
  }

  /** Who looks loads nothing: what others have done since is not seen. */
  @Test
  void itIsTheNewestThatTheHandleHasLoadedOrMade() {
    handle.tidy();
    SeenHead before = handle.seen();
    assertThat(before.oldestMaybeUnappliedTs()).isEmpty();
    long commitTs = commit(lazy);
    assertThat(handle.seen()).isEqualTo(before);
    assertThat(lazy.seen().upperTs()).isEqualTo(commitTs);
    assertThat(handle.upper()).isEqualTo(commitTs);
    SeenHead after = handle.seen();
    assertThat(after).isEqualTo(lazy.seen());
    assertThat(after.isNewer(before)).isTrue();
    assertThat(after.entries()).isEqualTo(before.entries() + 1);
    assertThat(after.bytes()).isGreaterThan(before.bytes() + 100);
    assertThat(after.oldestMaybeUnappliedTs()).hasValue(commitTs);
    handle.apply();
    handle.tidy();
    assertThat(handle.seen().oldestMaybeUnappliedTs()).isEmpty();
    assertThat(handle.seen().isNewer(after)).isTrue();
  }

  /** Six gauges look at each scrape, of every session: a head may have 8 MiB. */
  @Test
  void aHeadIsCountedOnce() {
    SeenHead before = handle.seen();
    assertThat(handle.seen()).isSameAs(before);
    commit(handle);
    assertThat(handle.seen()).isNotEqualTo(before);
  }

  @Test
  void transactionsThatAreOffAreTold() {
    handle.off();
    assertThat(handle.seen().off()).isTrue();
    handle.on();
    assertThat(handle.seen().off()).isFalse();
  }

  @Test
  void whereThereIsNoLogThereIsNothing() {
    assertThat(TxnHandle.open("lake", lake.catalog(), Lake.INLINE, Lake.CLOCK).seen())
        .isEqualTo(SeenHead.NONE);
    assertThat(SeenHead.NONE.skewMs(1000)).isZero();
    assertThat(SeenHead.NONE.oldestMaybeUnappliedAgeMs(1000)).isZero();
  }

  /** A clock that ran fast makes the log run ahead: ages go by the log's time then. */
  @Test
  void agesGoByTheClockUnlessTheLogIsAhead() {
    SeenHead seen = new SeenHead(1, 1, 9, 100_000, OptionalLong.of(98_000), false);
    assertThat(seen.skewMs(101_000)).isEqualTo(-1000);
    assertThat(seen.oldestMaybeUnappliedAgeMs(101_000)).isEqualTo(3000);
    assertThat(seen.oldestMaybeUnappliedAgeMs(90_000)).isZero();
    assertThat(seen.oldestMaybeUnappliedAgeMs(39_000)).isEqualTo(2000);
  }
}
