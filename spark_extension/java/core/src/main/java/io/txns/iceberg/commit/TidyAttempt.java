package io.txns.iceberg.commit;

import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.Cleaning;
import io.txns.iceberg.stage.StagedFiles;
import io.txns.iceberg.stage.StagedTable;
import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.Snapshot;

/** What one tidy has written, before anybody knows what becomes of it. */
final class TidyAttempt {
  private final Head head;
  private final Set<String> superseded = new LinkedHashSet<>();
  private StagedTable staged;
  private String dataFile;

  /**
   * @param head what it stands on
   */
  TidyAttempt(Head head) {
    this.head = head;
  }

  Head head() {
    return head;
  }

  /** What its swap leaves behind, and no kept version names: to be removed when it was won. */
  Set<String> superseded() {
    return superseded;
  }

  /** Note the commit table with what it puts there. */
  void staged(StagedTable table) {
    this.staged = table;
  }

  /** Note the file of rows that is about to be written. */
  void dataFile(String location) {
    this.dataFile = location;
  }

  /** Run what writes its files; those that there are go if that fails. */
  <T> T written(Supplier<T> work) {
    try {
      return work.get();
    } catch (RuntimeException e) {
      delete();
      throw e;
    }
  }

  boolean hasLanded(Head newer) {
    return newer.metadata().snapshot(snapshot().snapshotId()) != null;
  }

  boolean isLost(Head newer) {
    return newer.hasOtherThan(snapshot(), head);
  }

  private Snapshot snapshot() {
    return staged.current().currentSnapshot();
  }

  /** Delete its files: no version of the table has them. */
  void delete() {
    if (staged == null) {
      return;
    }
    StagedFiles.metadataOf(staged).delete();
    if (dataFile != null) {
      Cleaning.of(dataFile, () -> staged.real().io().deleteFile(dataFile));
    }
  }
}
