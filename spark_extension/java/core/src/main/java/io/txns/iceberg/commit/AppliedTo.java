package io.txns.iceberg.commit;

import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.table.DataTables;
import java.util.HashMap;
import java.util.Map;

/** The one rule that says whether an entry is applied; asks the catalog for each table once. */
public final class AppliedTo {
  private final DataTables tables;
  private final LogState state;
  private final Map<String, Long> appliedTs = new HashMap<>();

  /**
   * @param state of the head whose entries are asked for
   */
  public AppliedTo(DataTables tables, LogState state) {
    this.tables = tables;
    this.state = state;
  }

  /** Whether every table of an entry shows it, or nobody looks for it there any more. */
  public boolean everywhere(Entry entry) {
    return !entry.applies() || entry.changes().stream().allMatch(change -> shows(entry, change));
  }

  private boolean shows(Entry entry, Change change) {
    if (state.forgottenTs(change.uuid()) > entry.commitTs()) {
      return true;
    }
    long applied =
        appliedTs.computeIfAbsent(
            change.uuid(), uuid -> tables.appliedTs(state.nameOf(change), uuid));
    // Its owner has dropped a forgotten table since, as they may.
    boolean gone = entry.kind() == EntryKind.FORGET && applied == DataTables.LESS_THAN_ALL;
    return gone || applied >= entry.commitTs();
  }
}
