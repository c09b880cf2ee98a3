package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Lake;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.LoggedLines;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics.Phase;
import io.txns.iceberg.catalog.Transaction;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.logging.log4j.Level;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.RegisterExtension;
import org.slf4j.MDC;

/** Lines of the log: what they are about, at which level, as text and in the MDC. */
class LogLinesTest extends TwoTables {
  @RegisterExtension final LoggedLines logged = new LoggedLines();
  private final MovedClock clock = new MovedClock();

  private static Transaction begin(TxnHandle handle, String txnId) {
    return handle.begin(BeginOptions.defaults().withId(txnId));
  }

  /** The protocol over a catalog that does something in place of the first swaps of the log. */
  private TxnHandle inPlaceOfSwaps(int swaps, Runnable deed) {
    AtomicInteger left = new AtomicInteger(swaps);
    return HookedOperations.open(
        lake,
        id("txns.commits"),
        (real, base, next) -> {
          if (left.getAndDecrement() > 0) {
            deed.run();
          }
          real.commit(base, next);
        },
        clock);
  }

  /** Each phase that the metrics measure, under one id, also from threads that apply. */
  @Test
  void aCommitIsToldBelowWhatIsShownByDefault() {
    logged.clear();
    Transaction txn = begin(handle, "job 7");
    append(handle.catalog(() -> txn).loadTable(id("shop.a")), 2);
    long commitTs = txn.commit().commitTs();
    String about = " txn=\"job 7\"";
    assertThat(logged.about("job 7", Level.DEBUG))
        .containsExactly(
            "DEBUG a phase has ended" + about + " phase=stage",
            "DEBUG a phase has ended" + about + " phase=validate",
            "DEBUG a phase has ended" + about + " phase=swap",
            "DEBUG committed at " + commitTs + about,
            "DEBUG a phase has ended" + about + " phase=apply");
    assertThat(logged.of(Level.DEBUG)).allMatch(line -> line.context().containsKey("txn"));
    assertThat(MDC.get("txn")).isNull();
  }

  /** Whoever writes JSON gets them by name, and whoever writes where a line is from finds that. */
  @Test
  void aLayoutHasTheFields() {
    logged.clear();
    Transaction txn = begin(handle, "x\" phase=y");
    append(handle.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
    LoggedLines.Line swap =
        logged.of(Level.DEBUG).stream()
            .filter(line -> "swap".equals(line.context().get("phase")))
            .findFirst()
            .orElseThrow();
    String ms = swap.context().get("ms");
    assertThat(swap.context())
        .containsExactlyInAnyOrderEntriesOf(
            Map.of("txn", "x\" phase=y", "phase", "swap", "ms", ms));
    assertThat(swap.text())
        .isEqualTo("a phase has ended txn=\"x\\\" phase=y\" phase=swap ms=" + ms);
    assertThat(swap.method()).isEqualTo("took");
  }

  @Test
  void lostRacesAreTold() {
    TxnHandle losing =
        inPlaceOfSwaps(
            2,
            () -> {
              throw new CommitFailedException("somebody was first");
            });
    logged.clear();
    Transaction txn = begin(losing, "t");
    append(losing.catalog(() -> txn).loadTable(id("shop.a")), 2);
    txn.commit();
    String lost = "INFO the swap was not won: LOST txn=t phase=swap";
    assertThat(logged.about("t", Level.INFO)).containsExactly(lost, lost);
  }

  @Test
  void aConflictIsTold() {
    Transaction late = begin(handle, "late");
    overwrite(handle.catalog(() -> late).loadTable(id("shop.a")), 3);
    overwrite(ours.loadTable(id("shop.a")), 4);
    assertThatThrownBy(late::commit).hasMessageContaining("lost a race");
    assertThat(logged.about("late", Level.INFO))
        .singleElement()
        .satisfies(line -> assertThat(line).startsWith("INFO not committed: "));
  }

  @Test
  void anUnknownOutcomeIsAWarning() {
    TxnHandle mute =
        inPlaceOfSwaps(
            1000,
            () -> {
              clock.aheadMs += 20_000;
              throw new IllegalStateException("connection reset; password=s3cret");
            });
    Transaction lost = begin(mute, "lost");
    append(mute.catalog(() -> lost).loadTable(id("shop.a")), 2);
    logged.clear();
    assertThatThrownBy(lost::commit).hasMessageContaining("BEGIN ID 'lost'");
    assertThat(logged.about("lost", Level.WARN))
        .containsExactly("WARN nobody knows yet whether it has committed txn=lost");
    assertThat(logged.of(Level.DEBUG))
        .noneMatch(line -> (line.text() + line.thrown()).contains("s3cret"));
  }

  /** A line about a table is about the transaction whose change is carried over. */
  @Test
  void whoAppliesSaysWhoseChangeItIs() {
    Transaction first = begin(lazy, "first");
    append(lazy.catalog(() -> first).loadTable(id("shop.a")), 2);
    first.commit();
    BeforeCommit refusing =
        new BeforeCommit(
            lake.catalog(),
            id("shop.a"),
            () -> {
              throw new CommitFailedException("not now, nor later");
            });
    logged.clear();
    TxnHandle.open("lake", refusing, Lake.INLINE, Lake.CLOCK).apply();
    assertThat(logged.about("first", Level.WARN))
        .containsExactly(
            "WARN entries stay unapplied: the catalog refuses the swap, though nobody has moved"
                + " main txn=first table=shop.a phase=apply");
  }

  /** Who has come by with a transaction of his own has nothing to do with it. */
  @Test
  void whatCannotBeCarriedOverIsToldOfWhoseItIs() {
    Transaction first = begin(lazy, "first");
    append(lazy.catalog(() -> first).loadTable(id("shop.a")), 2);
    first.commit();
    BeforeCommit failing =
        new BeforeCommit(
            lake.catalog(),
            id("shop.a"),
            () -> {
              throw new IllegalStateException("no answer");
            });
    TxnHandle handle = TxnHandle.open("lake", failing, Lake.INLINE, Lake.CLOCK);
    logged.clear();
    Transaction second = begin(handle, "second");
    append(handle.catalog(() -> second).loadTable(id("shop.a")), 3);
    second.commit();
    assertThat(logged.about("first", Level.WARN))
        .containsExactly(
            "WARN entries stay unapplied, the next writer tries again txn=first table=shop.a"
                + " phase=apply");
    assertThat(logged.about("second", Level.WARN)).isEmpty();
  }

  @Test
  void whatALineIsAboutEndsWithItsBlock() {
    TxnLogger log = TxnLogger.of(TxnHandle.class);
    TableIdentifier table = TableIdentifier.of(Namespace.of("shop"), "a.b");
    MDC.put("table", "the user's own");
    LogFields.of("t")
        .in(Phase.SWAP)
        .during(
            () -> {
              LogFields inner = LogFields.of(table).in(Phase.APPLY);
              inner.during(() -> log.info(LogFields.NONE.took(3), "inside"));
              log.info(LogFields.of("another"), "outside");
            });
    assertThat(MDC.getCopyOfContextMap()).isEqualTo(Map.of("table", "the user's own"));
    MDC.remove("table");
    log.info(LogFields.NONE, "after");
    assertThat(logged.of(Level.INFO).stream().map(LoggedLines.Line::text))
        .isEqualTo(
            List.of(
                "inside txn=t table=\"shop.`a.b`\" phase=apply ms=3",
                "outside txn=another table=\"the user's own\" phase=swap",
                "after"));
  }
}
