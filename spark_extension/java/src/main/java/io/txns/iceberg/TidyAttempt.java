package io.txns.iceberg;

import java.util.LinkedHashSet;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.Snapshot;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** What one tidy has written, before anybody knows what becomes of it. */
final class TidyAttempt {
  private static final Logger LOG = LoggerFactory.getLogger(TidyAttempt.class);

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

  /** What its swap leaves behind, to be removed after it has been won. */
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
      try {
        delete();
      } catch (RuntimeException stays) {
        e.addSuppressed(stays);
      }
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
    try {
      StagedFiles.metadataOf(staged).delete();
    } catch (RuntimeException e) { // somebody has removed its list before
      LOG.warn("metadata of a lost tidy may stay", LoggedFailure.of(e));
    }
    if (dataFile != null) {
      try {
        staged.real().io().deleteFile(dataFile);
      } catch (RuntimeException e) {
        LOG.warn("a file of a lost tidy stays: {}", dataFile, LoggedFailure.of(e));
      }
    }
  }
}
