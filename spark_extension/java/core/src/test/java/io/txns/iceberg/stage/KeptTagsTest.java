package io.txns.iceberg.stage;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/** Files that come back outlive the expiry of what had removed them (docs/spec.md, 6.9). */
@Timeout(120)
class KeptTagsTest {
  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lake.create(handle, "shop.a");
  }

  private Table auto() {
    return handle.catalog(() -> null).loadTable(id("shop.a"));
  }

  private Table plain() {
    return lake.catalog().loadTable(id("shop.a"));
  }

  private List<String> tags() {
    return plain().refs().keySet().stream().filter(ref -> ref.startsWith("txns-kept-")).toList();
  }

  /** Rows 1 in a file that is gone from main since. */
  private long removed() {
    append(auto(), 1);
    long first = auto().currentSnapshot().snapshotId();
    overwrite(auto(), 2);
    return first;
  }

  /** All that plain Iceberg can take, with what a stranger may do to retention before. */
  private void expire() {
    Table plain = plain();
    plain.updateProperties().set("history.expire.max-ref-age-ms", "1").commit();
    plain.manageSnapshots().setMinSnapshotsToKeep("main", 1).commit();
    plain.manageSnapshots().setMaxSnapshotAgeMs("main", 1).commit();
    long now = System.currentTimeMillis() + 1000;
    plain.expireSnapshots().expireOlderThan(now).retainLast(1).commit();
  }

  @Test
  void filesOfARollbackOutliveTheExpiryOfWhatHadRemovedThem() {
    long first = removed();
    auto().manageSnapshots().rollbackTo(first).commit();
    expire();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThat(tags()).hasSize(1);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L);
  }

  @Test
  void aTagGoesWithTheNextChangeWhenNothingNeedsIt() {
    long first = removed();
    auto().manageSnapshots().rollbackTo(first).commit();
    append(auto(), 3);
    assertThat(tags()).hasSize(1); // what removed the file is there still
    expire();
    append(auto(), 4);
    assertThat(tags()).isEmpty();
    expire();
    append(auto(), 5);
    expire();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L, 4L, 5L);
  }

  @Test
  void aTagOutlivesLaterOverwrites() {
    long first = removed();
    auto().manageSnapshots().rollbackTo(first).commit();
    overwrite(auto(), 6);
    expire();
    overwrite(auto(), 7);
    assertThat(tags()).isEmpty(); // none of them had removed the file before it came back
    assertThat(lake.plainIds("shop.a")).containsExactly(7L);
  }

  @Test
  void aRollbackThatGoesOnInItsTransactionKeepsItsFilesToo() {
    long first = removed();
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table inside = handle.catalog(() -> txn).loadTable(id("shop.a"));
    inside.manageSnapshots().rollbackTo(first).commit();
    append(inside, 3);
    txn.commit();
    assertThat(tags()).hasSize(1);
    expire();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L);
  }

  @Test
  void anAdoptedRollbackKeepsItsFilesToo() {
    long first = removed();
    plain().manageSnapshots().rollbackTo(first).commit();
    handle.repairAdopt(id("shop.a"));
    assertThat(tags()).hasSize(1);
    expire();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  @Test
  void aRejectedOverwriteNeedsNoTag() {
    append(auto(), 1);
    overwrite(plain(), 2);
    handle.repairReject(id("shop.a"));
    assertThat(tags()).isEmpty(); // what removed the file is no ancestor of main
    plain().refs().keySet().stream()
        .filter(ref -> ref.startsWith("txns-foreign-"))
        .forEach(branch -> plain().manageSnapshots().removeBranch(branch).commit());
    expire();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
  }

  @Test
  void whatRemovesNothingNeedsNoTag() {
    append(auto(), 1);
    long first = auto().currentSnapshot().snapshotId();
    append(auto(), 2);
    auto().manageSnapshots().rollbackTo(first).commit();
    auto().manageSnapshots().createBranch("audit").commit();
    for (long row = 3; row < 5; row++) { // the second stands on a copy
      Table table = auto();
      table.newAppend().appendFile(Lake.file(table, row)).toBranch("audit").commit();
      auto().manageSnapshots().fastForwardBranch("main", "audit").commit();
    }
    assertThat(tags()).isEmpty();
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 3L, 4L);
  }

  @Test
  void aFileThatIsGoneIsNamedAndNothingIsCommitted() {
    Table table = auto();
    DataFile file = Lake.file(table, 1);
    table.newAppend().appendFile(file).commit();
    long first = auto().currentSnapshot().snapshotId();
    overwrite(auto(), 2);
    plain().io().deleteFile(file.location());
    long upper = handle.services().log().load().upper();
    assertThatThrownBy(() -> auto().manageSnapshots().rollbackTo(first).commit())
        .hasMessageContaining(file.location())
        .hasMessageContaining("take another snapshot");
    assertThat(handle.services().log().load().upper()).isEqualTo(upper);
    assertThat(lake.txnIds("shop.a")).containsExactly(2L);
  }

  @Test
  void aTagOfARollbackThatLostIsKeptWhileItMayBeNeeded() {
    long first = removed();
    Transaction txn = handle.begin(BeginOptions.defaults());
    handle.catalog(() -> txn).loadTable(id("shop.a")).manageSnapshots().rollbackTo(first).commit();
    append(auto(), 3);
    assertThatThrownBy(txn::commit).hasMessageContaining("lost a race");
    append(auto(), 4);
    assertThat(tags()).hasSize(1);
    expire();
    append(auto(), 5);
    assertThat(tags()).isEmpty();
    assertThat(lake.plainIds("shop.a")).containsExactly(2L, 3L, 4L, 5L);
  }

  @Test
  void theTagHasNoAge() {
    long first = removed();
    auto().manageSnapshots().rollbackTo(first).commit();
    Map<String, SnapshotRef> refs = plain().refs();
    SnapshotRef tag = refs.get(tags().get(0));
    assertThat(tag.isTag()).isTrue();
    assertThat(tag.snapshotId()).isEqualTo(first);
    assertThat(tag.maxRefAgeMs()).isEqualTo(Long.MAX_VALUE);
  }
}
