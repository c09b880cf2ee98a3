package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.table.ForeignBranches;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

/** No expiry through the log takes what strangers have appended and nobody has adopted. */
@Timeout(120)
class OpenRowsTest extends AdoptionLake {
  private TableOperations real() {
    return ((BaseTable) outside.loadTable(A)).operations();
  }

  /**
   * Else what is kept of it would stand on nothing, and nobody would adopt it.
   *
   * <p>1. A stranger appends twice to a branch. 2. A statement expires the older of these. 3. The
   * stranger takes the branch for main. 4. The expiry is applied, and theirs adopted.
   */
  @Test
  void whatHasComeToMainSinceIsNotExpiredByWhoApplies() {
    Table theirs = outside.loadTable(A);
    theirs.manageSnapshots().createBranch("audit").commit();
    for (long row : new long[] {BESIDE, BESIDE + 1}) {
      theirs.newAppend().appendFile(Lake.file(theirs, row)).toBranch("audit").commit();
    }
    long older = theirs.snapshot(theirs.refs().get("audit").snapshotId()).parentId();
    Table shown = lazy.catalog(() -> null).loadTable(A);
    shown.expireSnapshots().expireSnapshotId(older).cleanExpiredFiles(false).commit();
    theirs.refresh();
    theirs.manageSnapshots().fastForwardBranch("main", "audit").commit();
    assertThat(lazy.apply()).isZero();
    append(handle.catalog(() -> null).loadTable(A), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, BESIDE, BESIDE + 1);
  }

  /**
   * A view of the log shows them on no branch, and who has planned on it would delete the files.
   */
  @Test
  void whoExpiresThemIsRefused() {
    appendBeside(BESIDE);
    TableOperations real = real();
    long theirs = real.current().currentSnapshot().snapshotId();
    List<MetadataUpdate> expiry = List.of(new MetadataUpdate.RemoveSnapshots(Set.of(theirs)));
    assertThatThrownBy(() -> ForeignBranches.refuseExpiry(A, real, expiry))
        .hasMessageContaining("nobody had adopted");
    handle.services().committer().adopt(A);
    assertThatCode(() -> ForeignBranches.refuseExpiry(A, real(), expiry))
        .doesNotThrowAnyException();
  }

  /** It is told what is in the way, and not to try again, which would end as before. */
  @Test
  void whoExpiresWhatABranchKeepsIsToldOfTheBranch() {
    appendBeside(BESIDE);
    appendBeside(BESIDE + 1);
    long older = outside.loadTable(A).currentSnapshot().parentId();
    handle.repairReject(A);
    Table shown = handle.catalog(() -> null).loadTable(A);
    String branch =
        shown.refs().keySet().stream()
            .filter(name -> name.startsWith(TableMark.FOREIGN_BRANCH))
            .findFirst()
            .orElseThrow();
    assertThatThrownBy(() -> shown.expireSnapshots().expireSnapshotId(older).commit())
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("drop the branch first; branch=`" + branch + "`");
    shown.manageSnapshots().removeBranch(branch).commit();
    shown.expireSnapshots().expireSnapshotId(older).commit();
    assertThat(outside.loadTable(A).snapshot(older)).isNull();
  }
}
