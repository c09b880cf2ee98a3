package io.txns.iceberg;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LogState;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The log's settings: for all of its processes, each of which may be stricter. */
class SettingsTest {
  private static final long HOUR_MS = 3600 * 1000;
  private static final long DAY_MS = 24 * HOUR_MS;
  private static final TableIdentifier A = id("shop.a");

  @TempDir Path folder;
  private final MovedClock clock = new MovedClock();
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void create() {
    lake = new Lake(folder);
    handle = process(Map.of());
    lake.create(handle, "shop.a");
  }

  /** A handle of another process, with exactly these options. */
  private TxnHandle process(Map<String, String> options) {
    return TxnHandle.open("lake", lake.catalog(), TxnConfig.from(options), clock);
  }

  private static Transaction writing(TxnHandle handle, BeginOptions options, long row) {
    Transaction txn = handle.begin(options);
    append(handle.catalog(() -> txn).loadTable(A), row);
    return txn;
  }

  private void write(long row) {
    append(handle.catalog(() -> null).loadTable(A), row);
  }

  @Test
  void whatIsNotGivenStays() {
    assertThat(handle.settings()).isEqualTo(LogSettings.DEFAULTS);
    handle.changeSettings(2 * DAY_MS, null, null);
    LogSettings all = new LogSettings(2 * DAY_MS, 7 * DAY_MS, TxnConfig.Apply.NEXT);
    assertThat(handle.changeSettings(null, null, TxnConfig.Apply.NEXT)).isEqualTo(all);
    assertThat(process(Map.of()).settings()).isEqualTo(all);
  }

  @Test
  void whoSetsTheLogMakesIt() throws Exception {
    lake = new Lake(Files.createDirectory(folder.resolve("new")));
    assertThat(process(Map.of()).settings()).isEqualTo(LogSettings.DEFAULTS);
    process(Map.of()).changeSettings(2 * DAY_MS, null, null);
    assertThat(process(Map.of()).settings().maxAgeMs()).isEqualTo(2 * DAY_MS);
  }

  @Test
  void whatALogCannotBeSetTo() {
    for (Long[] wrong : List.of(new Long[] {999L, null}, new Long[] {8 * DAY_MS, null})) {
      assertThatThrownBy(() -> handle.changeSettings(wrong[0], wrong[1], null))
          .isInstanceOfSatisfying(
              TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("22023"))
          .hasMessageContaining("the log cannot be set to that");
    }
    assertThat(handle.settings()).isEqualTo(LogSettings.DEFAULTS);
  }

  @Test
  void settingsStayInTheHeadHoweverMuchIsTidied() {
    handle.changeSettings(null, null, TxnConfig.Apply.NEXT);
    handle.changeSettings(2 * DAY_MS, null, TxnConfig.Apply.INLINE);
    write(2);
    handle.tidy();
    handle.tidy();
    LogState state = handle.services().log().load().state();
    assertThat(state.entries()).extracting(Entry::kind).containsExactly(EntryKind.SETTINGS);
    assertThat(state.archivedUpto()).isEqualTo(state.tidiedUpto());
    assertThat(process(Map.of()).settings().maxAgeMs()).isEqualTo(2 * DAY_MS);
    assertThat(handle.transactions()).filteredOn(row -> row.kind().equals("settings")).hasSize(2);
  }

  /**
   * 1. A transaction begins, and writes. 2. Somebody sets the log to a greatest age of an hour. 3.
   * Two hours later the transaction commits.
   */
  @Test
  void aGreatestAgeThatIsLoweredHoldsForTransactionsThatAreOpen() {
    Transaction txn = writing(process(Map.of()), BeginOptions.defaults(), 2);
    handle.changeSettings(HOUR_MS, null, null);
    clock.aheadMs += 2 * HOUR_MS;
    assertThatThrownBy(txn::commit).hasMessageContaining("may be 3600 s");
  }

  @Test
  void aGreatestAgeThatIsRaisedHoldsForProcessesThatAreRunning() {
    Transaction txn = writing(process(Map.of()), BeginOptions.defaults(), 2);
    handle.changeSettings(3 * DAY_MS, null, null);
    clock.aheadMs += 2 * DAY_MS;
    txn.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(2L);
  }

  @Test
  void aProcessMayHaveItsTransactionsEndEarlierAndNotLater() {
    Map<Integer, Integer> ages = Map.of(60, 60, 5 * 24 * 3600, 24 * 3600);
    ages.forEach(
        (own, effective) -> {
          TxnHandle one = process(Map.of("txns.max-age-s", own.toString()));
          Transaction txn = writing(one, BeginOptions.defaults(), 2);
          clock.aheadMs += 1000L * effective + 1000;
          assertThatThrownBy(txn::commit).hasMessageContaining("may be " + effective + " s");
        });
  }

  /** What is no time any more is as good as what says nothing. */
  @ParameterizedTest
  @ValueSource(longs = {Long.MAX_VALUE, Long.MAX_VALUE / 500, 1L << 32})
  void optionsThatAreTooLongAreLongAndNotNegative(long number) {
    String text = String.valueOf(number);
    TxnConfig config =
        TxnConfig.from(
            Map.of(
                "txns.max-age-s", text, "txns.id-retention-days", text, "txns.tidy-after", text));
    assertThat(config.tidyAfter()).isEqualTo(Integer.MAX_VALUE);
    assertThat(config.within(LogSettings.DEFAULTS).maxAgeMs()).isEqualTo(DAY_MS);
    assertThat(config.within(LogSettings.DEFAULTS).idRetentionMs()).isGreaterThan(36_500 * DAY_MS);
    assertThat(config.laxerThan(LogSettings.DEFAULTS)).hasSize(1);
    assertThat(config.idsSinceTs(LogSettings.DEFAULTS, 1, 1)).isNegative();
  }

  /** 1. An id commits, and is archived. 2. A host whose clock is 8 days fast tries it. */
  @Test
  void aClockThatIsDaysFastCommitsNoArchivedIdAgain() {
    writing(handle, BeginOptions.defaults().withId("once"), 2).commit();
    handle.tidy();
    clock.aheadMs += 8 * DAY_MS;
    assertThat(process(Map.of()).begin(BeginOptions.defaults().withId("once")).state())
        .isEqualTo(Transaction.State.COMMITTED);
  }

  /** The same where such a host has committed, so that the log is 8 days ahead. */
  @Test
  void aLogThatRanAheadMakesNoIdOlder() {
    writing(handle, BeginOptions.defaults().withId("once"), 2).commit();
    clock.aheadMs += 8 * DAY_MS;
    write(3);
    handle.tidy();
    clock.aheadMs = 0;
    assertThat(process(Map.of()).begin(BeginOptions.defaults().withId("once")).state())
        .isEqualTo(Transaction.State.COMMITTED);
  }

  @Test
  void idsAreLookedForAsFarBackAsTheLogSays() {
    handle.changeSettings(null, 30 * DAY_MS, null);
    writing(handle, BeginOptions.defaults().withId("once"), 2).commit();
    clock.aheadMs += 20 * DAY_MS;
    write(3);
    handle.tidy();
    TxnHandle shorter = process(Map.of("txns.id-retention-days", "1"));
    assertThat(shorter.begin(BeginOptions.defaults().withId("once")).state())
        .isEqualTo(Transaction.State.COMMITTED);
    clock.aheadMs += 11 * DAY_MS;
    write(4);
    handle.tidy();
    assertThat(process(Map.of()).begin(BeginOptions.defaults().withId("once")).state())
        .isEqualTo(Transaction.State.ACTIVE);
  }

  @Test
  void aProcessLeavesTheApplyToOthersOnlyWhereTheLogSaysSo() {
    TxnHandle later = process(Map.of("txns.apply", "next"));
    writing(later, BeginOptions.defaults(), 1).commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    handle.changeSettings(null, null, TxnConfig.Apply.NEXT);
    writing(later, BeginOptions.defaults(), 2).commit();
    writing(process(Map.of()), BeginOptions.defaults(), 3).commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    TxnHandle stricter = process(Map.of("txns.apply", "inline"));
    writing(stricter, BeginOptions.defaults(), 4).commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L, 4L);
  }
}
