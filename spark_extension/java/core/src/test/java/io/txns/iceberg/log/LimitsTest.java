package io.txns.iceberg.log;

import static io.txns.iceberg.Lake.append;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.util.List;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.relocated.com.google.common.collect.Iterables;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What a record may hold at most (docs/spec.md, 4.7). */
class LimitsTest extends TwoTables {
  @ParameterizedTest
  @ValueSource(strings = {"a", "€"})
  void aCommentHasALimit(String character) {
    String longest = character.repeat(Limits.COMMENT_MAX_BYTES / character.getBytes().length);
    Transaction txn = handle.begin(BeginOptions.defaults());
    txn.comment(longest);
    assertThatThrownBy(() -> txn.comment(longest + character))
        .hasMessageContaining("shorten it")
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("54000"));
    txn.rollback();
  }

  @Test
  void aTransactionHasALimitOfTables() {
    assertThatCode(() -> Limits.checkTables(Limits.TABLES_MAX)).doesNotThrowAnyException();
    assertThatThrownBy(() -> Limits.checkTables(Limits.TABLES_MAX + 1))
        .hasMessageContaining("divide it")
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(TxnException.isFinal(e)).isTrue());
  }

  @Test
  void aSchemaThatNestsTooDeeplyIsRefused() {
    Type deep = Types.LongType.get();
    for (int i = 2; i < 40; i++) {
      deep = Types.StructType.of(Types.NestedField.optional(i, "inner", deep));
    }
    Schema schema = new Schema(Types.NestedField.optional(1, "outer", deep));
    assertThatThrownBy(
            () ->
                handle
                    .catalog(() -> null)
                    .buildTable(TableIdentifier.of("shop", "deep"), schema)
                    .create())
        .hasMessageContaining("flatten it");
    assertThat(outside.tableExists(TableIdentifier.of("shop", "deep"))).isFalse();
  }

  @ParameterizedTest
  @CsvSource({"65", "100000"})
  void jsonThatNestsTooDeeplyIsNoJsonOfTheLog(int depth) {
    String json = "[".repeat(depth) + "]".repeat(depth);
    assertThatThrownBy(() -> Limits.parsed(json)).hasMessageContaining("nesting");
    assertThatThrownBy(() -> Limits.parsed(json)).hasMessageContaining("nesting");
  }

  @Test
  void jsonOfTheGreatestNestingIsRead() {
    String json = "[".repeat(Limits.NESTING_MAX) + "]".repeat(Limits.NESTING_MAX);
    assertThatCode(() -> Limits.parsed(json)).doesNotThrowAnyException();
  }

  /** Whatever a payload is made of, its entry is corrupt, and nothing else happens. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "{",
        "[]",
        "{}",
        "{\"table-changes\":null}",
        "{\"table-changes\":[{}]}",
        "{\"table-changes\":[{\"identifier\":{\"namespace\":[],\"name\":\"a\"},"
            + "\"requirements\":[],\"updates\":[{\"action\":\"add-schema\",\"schema\":7}]}]}"
      })
  void aPayloadThatIsNoneIsCorrupt(String json) {
    Entry entry = entryWith(new Entry.Payload(json, null, null));
    assertThatThrownBy(() -> new Payloads().read(entry, () -> null, () -> ""))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG));
  }

  /** Nobody reads, or removes, what a record says to lie elsewhere (docs/spec.md, 4.5). */
  @ParameterizedTest
  @CsvSource({
    "s3://lake/log/metadata/txns-payload-0a-1b.json, true",
    "s3://lake/log/metadata/txns-payload-0a-1b-7.json, true",
    "s3://lake/log/metadata/txns-payload-0a-1b.json/x, false",
    "s3://lake/log/metadata/x/txns-payload-0a-1b.json, false",
    "s3://lake/log/metadata/txns-payload-.json, false",
    "s3://lake/log/metadata/00001-x.metadata.json, false",
    "s3://lake/other/metadata/txns-payload-0a-1b.json, false",
    "s3://lake/log/metadata/../../victim/txns-payload-0a-1b.json, false",
    "victim, false"
  })
  void aPayloadHasItsPlace(String path, boolean isAtItsPlace) {
    assertThat(Payloads.isAtItsPlace(path, "s3://lake/log")).isEqualTo(isAtItsPlace);
    if (!isAtItsPlace) {
      Entry entry = entryWith(new Entry.Payload(null, path, "0".repeat(64)));
      assertThatThrownBy(() -> new Payloads().read(entry, () -> null, () -> "s3://lake/log"))
          .hasMessageContaining("is not read");
    }
  }

  @ParameterizedTest
  @CsvSource({
    "s3://lake/log/data/a.parquet, true",
    "s3://lake/logs/data/a.parquet, false",
    "s3://lake/log/../victim, false",
    "s3://lake/log/metadata/.., false"
  })
  void aCommitTableHasFilesOfItsOwn(String path, boolean own) {
    assertThat(CommitTable.isItsOwn(path, "s3://lake/log")).isEqualTo(own);
  }

  /** The archive has no such time. */
  @Test
  void aClockPastTheYear9999CommitsNothing() {
    long upper = handle.upper();
    TxnHandle future =
        TxnHandle.open("lake", lake.catalog(), Lake.INLINE, new MovedClock(Limits.COMMIT_TS_LE));
    Table table = future.catalog(() -> null).loadTable(TableIdentifier.of("shop", "a"));
    assertThatThrownBy(() -> append(table, 2))
        .hasMessageContaining("the year 9999")
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("54000"));
    assertThat(handle.upper()).isEqualTo(upper);
  }

  /** As a program without the limit has made one; nobody commits to it any more. */
  @ParameterizedTest
  @ValueSource(longs = {Limits.COMMIT_TS_LE + 1, Long.MAX_VALUE})
  void aLogPastTheYear9999IsReadAndTidied(long commitTs) {
    CommitLog log = lake.open().services().log();
    Head head = log.load();
    Entry moved = head.entry(EntryKind.ADVANCE, commitTs, "moved", List.of());
    assertThat(log.append(head, List.of(moved)).outcome()).isEqualTo(Swap.Outcome.WON);
    assertThat(lake.open().tidy()).isPositive();
    TransactionRow last = Iterables.getLast(lake.open().transactions());
    assertThat(last.commitTs()).isEqualTo(commitTs);
    assertThat(last.committedAt()).isEqualTo(Limits.COMMIT_TS_LE);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    Table table = lake.open().catalog(() -> null).loadTable(TableIdentifier.of("shop", "a"));
    assertThatThrownBy(() -> append(table, 2)).hasMessageContaining("the year 9999");
  }

  private Entry entryWith(Entry.Payload payload) {
    Entry real = handle.services().log().load().state().entries().get(0);
    return new Entry(
        EntryKind.COMMIT,
        real.commitTs(),
        real.prevTs(),
        real.upper(),
        real.tidiedUpto(),
        real.readTs(),
        real.txnId(),
        real.isolation(),
        "",
        "",
        real.changes(),
        payload);
  }
}
