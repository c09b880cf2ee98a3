package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.stage.Restager;
import java.io.File;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.EnvironmentContext;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.util.SnapshotUtil;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What strangers append is adopted by whoever writes the table next (docs/spec.md 9.3). */
@Timeout(120)
class AdoptionTest extends AdoptionLake {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final TypeReference<Map<String, String>> WORDS = new TypeReference<>() {};
  private static final TypeReference<List<Map<String, String>>> LIST_OF_WORDS =
      new TypeReference<>() {};
  private static final String OFFSETS = "kafka.connect.offsets.orders";

  /** What the log says has happened since the first row was there. */
  private List<String> kinds() {
    Map<Long, String> kinds = new TreeMap<>();
    for (TransactionRow row : handle.transactions()) {
      kinds.put(row.commitTs(), row.kind());
    }
    return kinds.values().stream()
        .filter(kind -> List.of("commit", "adopt").contains(kind))
        .skip(1)
        .toList();
  }

  private static void isRefused(ErrorKind kind, ThrowingCallable deed) {
    assertThatThrownBy(deed)
        .isInstanceOfSatisfying(TxnException.class, e -> assertThat(e.kind()).isEqualTo(kind));
  }

  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whoOnlyAppendsGoesOn(String apply) {
    TxnHandle ours = opened(apply);
    Transaction txn = begun(ours);
    append(in(ours, txn), 2);
    appendBeside(BESIDE);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE);
    assertThat(kinds()).containsExactlyInAnyOrder("adopt", "commit");
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whoHasReadTheRowsOfTheTableClashes(String apply) {
    TxnHandle ours = opened(apply);
    Transaction txn = begun(ours);
    Table table = in(ours, txn);
    assertThat(ids(table)).containsExactly(1L);
    append(table, 2);
    appendBeside(BESIDE);
    isRefused(ErrorKind.CONFLICT, txn::commit);
    Transaction again = begun(ours);
    Table now = in(ours, again);
    assertThat(ids(now)).containsExactly(1L, BESIDE);
    append(now, BESIDE + 1);
    again.commit();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, BESIDE, BESIDE + 1);
    assertThat(kinds()).containsExactly("adopt", "commit");
  }

  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whoTakesAwayOtherFilesDoesNot(String apply) {
    append(ours.loadTable(A), 2);
    TxnHandle writer = opened(apply);
    Transaction txn = begun(writer);
    in(writer, txn).newDelete().deleteFromRowFilter(Expressions.equal("id", 1L)).commit();
    appendBeside(BESIDE);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(2L, BESIDE);
    assertThat(lake.plainIds("shop.a")).containsExactly(2L, BESIDE);
    assertThat(kinds()).containsExactly("commit", "adopt", "commit");
  }

  /** Outside a transaction a load for a write adopts, so that the write sees what there was. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void oneOperationSeesWhatWasThereBeforeIt(String apply) {
    TxnHandle writer = opened(apply);
    appendBeside(BESIDE);
    Table table = writer.catalog(() -> null).loadTableForWrite(A);
    assertThat(ids(table)).containsExactly(1L, BESIDE);
    overwrite(table, 7);
    assertThat(lake.plainIds("shop.a")).containsExactly(7L);
    assertThat(kinds()).containsExactly("adopt", "commit");
  }

  /** Iceberg's own retry finds the rows adopted, and decides on them. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void anOperationOnATableThatWasReadIsTriedAgain(String apply) {
    TxnHandle writer = opened(apply);
    Table table = writer.catalog(() -> null).loadTable(A);
    appendBeside(BESIDE);
    append(table, 2);
    table.newDelete().deleteFromRowFilter(Expressions.equal("id", 1L)).commit();
    appendBeside(BESIDE + 1);
    table.updateProperties().set("owner", "me").commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(2L, BESIDE, BESIDE + 1);
    assertThat(lake.plainIds("shop.a")).containsExactly(2L, BESIDE, BESIDE + 1);
  }

  @Test
  void aDropAndARenameComeAfterWhatWasThereBefore() {
    appendBeside(BESIDE);
    ours.renameTable(A, id("shop.c"));
    append(outside.loadTable(id("shop.c")), BESIDE + 1);
    assertThat(lake.txnIds("shop.c")).containsExactly(1L, BESIDE);
    assertThat(ours.dropTable(id("shop.c"), false)).isTrue();
    assertThat(ours.tableExists(id("shop.c"))).isFalse();
  }

  @Test
  void readersWaitForNobody() {
    appendBeside(BESIDE);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
    assertThat(kinds()).isEmpty();
  }

  /** What the history of main says under a key, the newest first. */
  private List<String> said(String key) {
    return StreamSupport.stream(
            SnapshotUtil.currentAncestors(outside.loadTable(A)).spliterator(), false)
        .map(at -> at.summary().get(key))
        .filter(Objects::nonNull)
        .toList();
  }

  /**
   * Programs keep there how far they have come, and look for it from the head of main down, each
   * for its own. And an expiry up to 1.9 deletes what an expired snapshot beside main's history has
   * added, unless one of that history names it as its source.
   */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void eachIsCherryPickedWithItsWords(String apply) {
    Table table = outside.loadTable(A);
    table.newAppend().appendFile(Lake.file(table, 8)).set("job", "x").set(OFFSETS, "1").commit();
    String first = Long.toString(table.currentSnapshot().snapshotId());
    table
        .newAppend()
        .appendFile(Lake.file(table, 9))
        .set("job", "y")
        .set(OFFSETS, "2")
        .set("source-snapshot-id", "77")
        .commit();
    String second = Long.toString(table.currentSnapshot().snapshotId());
    append(opened(apply).catalog(() -> null).loadTable(A), 2);
    assertThat(said("job")).containsExactly("y", "x");
    assertThat(said(OFFSETS)).containsExactly("2", "1");
    assertThat(said("source-snapshot-id")).containsExactly(second, "77", first);
    assertThat(said("txns.adopted")).containsExactly(second, first);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 8L, 9L);
  }

  /** Whose rows they are the summary says, and the log who has adopted them: in no other words. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whoHasWrittenTheRowsIsSaidByThem(String apply) {
    Table table = outside.loadTable(A);
    table
        .newAppend()
        .appendFile(Lake.file(table, 8))
        .set("engine-name", "flink")
        .set("source-snapshot-id", "77")
        .commit();
    Map<String, String> theirs = new TreeMap<>(Restager.ownWords(table.currentSnapshot()));
    String taken = Long.toString(table.currentSnapshot().snapshotId());
    theirs.put("source-snapshot-id", taken);
    theirs.put("txns.adopted", taken);
    EnvironmentContext.put("engine-name", "spark");
    EnvironmentContext.put("engine-version", "4");
    try {
      assertThat(opened(apply).services().committer().adopt(A)).isTrue();
    } finally {
      EnvironmentContext.remove("engine-name");
      EnvironmentContext.remove("engine-version");
    }
    Table now = outside.loadTable(A);
    assertThat(withoutStamp(now.currentSnapshot())).isEqualTo(theirs);
    Snapshot before = now.snapshot(now.currentSnapshot().parentId());
    assertThat(withoutStamp(before)).isEqualTo(Map.of("source-snapshot-id", "77"));
  }

  private static Map<String, String> withoutStamp(Snapshot at) {
    Map<String, String> words = new TreeMap<>(Restager.ownWords(at));
    words.keySet().removeAll(List.of("txns.commit-ts", "txns.txn-id", "txns.passing"));
    return words;
  }

  /** The same words in both languages. */
  @Test
  void anAdoptionSaysWhatTheSpecificationHas() throws IOException {
    for (JsonNode golden : JSON.readTree(new File("../../../docs/golden/adopted_words.json"))) {
      long id = golden.get("snapshotId").asLong();
      Snapshot theirs =
          SnapshotEdit.create(id, DataOperations.APPEND)
              .timestampMs(1)
              .manifestList("file:///lake/shop/a/metadata/snap-1.avro")
              .summary(JSON.convertValue(golden.get("summary"), WORDS))
              .build();
      assertThat(Adoption.words(theirs))
          .as(golden.get("why").asText())
          .isEqualTo(JSON.convertValue(golden.get("said"), LIST_OF_WORDS));
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void whatWasRejectedStaysWhereItIs(String apply) {
    appendBeside(BESIDE);
    handle.repairReject(A);
    TxnHandle writer = opened(apply);
    for (long row : new long[] {2, 3}) {
      appendBeside(BESIDE + row);
      append(writer.catalog(() -> null).loadTable(A), row);
      append(lake.open().catalog(() -> null).loadTable(A), 10 + row);
    }
    assertThat(lake.plainIds("shop.a"))
        .containsExactly(1L, 2L, 3L, 12L, 13L, BESIDE + 2, BESIDE + 3);
    assertThat(outside.loadTable(A).refs()).hasSize(2);
  }

  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void moreThanAnAppendIsQuarantine(String apply) {
    TxnHandle writer = opened(apply);
    appendBeside(BESIDE);
    overwrite(outside.loadTable(A), 7);
    isRefused(ErrorKind.QUARANTINED, () -> append(writer.catalog(() -> null).loadTable(A), 2));
    Transaction txn = begun(writer);
    isRefused(ErrorKind.QUARANTINED, () -> append(in(writer, txn), 2));
  }

  /** Rows that cannot be adopted are told to who writes, with the column. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void rowsWithOtherColumnsAreAForeignWrite(String apply) {
    Table plain = outside.loadTable(id("shop.b"));
    DataFile file = Lake.file(plain, 9); // while it has the names of the log
    plain.updateSchema().renameColumn("name", "title").commit();
    plain.newAppend().appendFile(file).commit();
    plain.updateSchema().renameColumn("title", "name").commit();
    TxnHandle writer = opened(apply);
    Transaction txn = begun(writer);
    append(writer.catalog(() -> txn).loadTable(id("shop.b")), 2);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.FOREIGN_WRITE))
        .hasMessageContaining("`name` of the log is `title`");
  }

  /** 1. A commit is not applied. 2. A stranger appends. 3. Somebody applies. 4. Another writes. */
  @Test
  void whatAnApplyHasKeptIsTheNextWriters() {
    append(lazy.catalog(() -> null).loadTable(A), 2);
    appendBeside(BESIDE);
    assertThat(lazy.apply()).isZero();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
    append(ours.loadTable(A), 3);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, BESIDE);
    assertThat(lazy.apply()).isZero();
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  /**
   * Programs look from main down for how far they have come: the last is to stand above.
   *
   * <p>1. Transactions are not applied. 2. For each a stranger appends, and it is applied. 3. All
   * that was kept is adopted.
   */
  @Test
  void theOldestBranchIsAdoptedFirst() {
    List<Transaction> begun = new ArrayList<>();
    for (long row = 10; row < 14; row++) {
      begun.add(begun(lazy));
      append(in(lazy, begun.get(begun.size() - 1)), row);
    }
    for (int n = 0; n < 4; n++) {
      Table plain = outside.loadTable(A);
      DataFile file = Lake.file(plain, BESIDE + n);
      plain.newAppend().appendFile(file).set(OFFSETS, String.valueOf(n)).commit();
      begun.get(n).commit();
      assertThat(lazy.apply()).isZero();
    }
    assertThat(outside.loadTable(A).refs()).hasSize(5);
    assertThat(handle.services().committer().adopt(A)).isTrue();
    assertThat(said(OFFSETS)).containsExactly("3", "2", "1", "0");
  }

  /**
   * A branch goes when its rows are taken in: by its word that alters the table.
   *
   * <p>1. A row is kept on a branch. 2. A transaction looks at the columns, and appends. 3.
   * Somebody writes, and adopts the row. 4. It commits.
   */
  @ParameterizedTest
  @ValueSource(strings = {"file", "table"})
  void whoHasLookedAtTheColumnsAloneGoesOn(String conflicts) {
    append(lazy.catalog(() -> null).loadTable(A), 2);
    appendBeside(BESIDE);
    assertThat(lazy.apply()).isZero();
    TxnHandle writer = lake.open(Map.of("txns.conflicts", conflicts));
    Transaction txn = writer.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    append(in(writer, txn), 3);
    txn.recordMetadataRead(A);
    append(ours.loadTable(A), 4);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 4L, BESIDE);
    assertThat(kinds()).contains("adopt");
  }

  /** Every row of both is there, and the log says in which order. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void aStrangerBesideManyTransactions(String apply) throws Exception {
    TxnHandle writer = opened(apply);
    AtomicBoolean over = new AtomicBoolean();
    List<Long> written = new ArrayList<>();
    Thread stranger =
        new Thread(
            () -> {
              for (long row = 100 * BESIDE; !over.get(); row++) {
                try {
                  appendBeside(row);
                  written.add(row);
                  Thread.sleep(100);
                } catch (CommitFailedException e) {
                  continue; // a row less
                } catch (InterruptedException e) {
                  return;
                }
              }
            });
    stranger.start();
    for (long row = 2; row < 12; row++) {
      Transaction txn = begun(writer);
      append(in(writer, txn), row);
      append(writer.catalog(() -> txn).loadTable(id("shop.b")), row);
      txn.commit();
    }
    over.set(true);
    stranger.join();
    while (writer.services().committer().adopt(A)) {
      continue; // what was appended meanwhile
    }
    List<Long> expected = Stream.concat(LongStream.range(1, 12).boxed(), written.stream()).toList();
    assertThat(lake.txnIds("shop.a")).isEqualTo(expected);
    assertThat(lake.plainIds("shop.a")).isEqualTo(expected);
    assertThat(kinds()).contains("adopt");
    assertThat(kinds().stream().filter("commit"::equals)).hasSize(10);
    assertThat(outside.loadTable(A).refs()).containsOnlyKeys("main");
  }

  /** 1. A transaction writes. 2. A service compacts. 3. It commits, also where the log went on. */
  @ParameterizedTest
  @ValueSource(strings = {"inline", "atomic"})
  void compactionCostsNoMoreThanARestage(String apply) throws Exception {
    TxnHandle writer = opened(apply);
    for (long row = 2; row < 8; row++) {
      Transaction txn = begun(writer);
      append(in(writer, txn), row);
      compact(outside.loadTable(A));
      if (row % 2 == 1) {
        append(ours.loadTable(A), BESIDE + row);
      }
      txn.commit();
    }
    assertThat(lake.plainIds("shop.a"))
        .containsExactly(1L, 2L, 3L, 4L, 5L, 6L, 7L, BESIDE + 3, BESIDE + 5, BESIDE + 7);
    assertThat(kinds()).doesNotContain("adopt");
  }
}
