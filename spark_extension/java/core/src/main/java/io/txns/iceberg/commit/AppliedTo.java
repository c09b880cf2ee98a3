package io.txns.iceberg.commit;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.table.DataTables;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.catalog.TableIdentifier;

/** The one rule that says whether an entry is applied; asks the catalog for each table once. */
public final class AppliedTo {
  private static final TxnLogger LOG = TxnLogger.of(AppliedTo.class);

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

  /**
   * Whether every table of an entry shows it, or nobody looks for it there any more. One to which
   * it was born applied may have been set back; one that has left the head was shown by all.
   */
  public boolean everywhere(Entry entry) {
    return !state.has(entry) || entry.moved().stream().allMatch(change -> shows(entry, change));
  }

  private boolean shows(Entry entry, Change change) {
    if (state.forgottenTs(change.uuid()) > entry.commitTs()) {
      return true;
    }
    long applied =
        appliedTs.computeIfAbsent(change.uuid(), uuid -> appliedTs(state.nameOf(change), uuid));
    // Its owner has dropped a forgotten table since, as they may.
    boolean gone = entry.kind() == EntryKind.FORGET && applied == DataTables.LESS_THAN_ALL;
    return gone || applied >= entry.commitTs();
  }

  /** A table that cannot be read shows nothing, and keeps nobody from the others. */
  private long appliedTs(TableIdentifier table, String uuid) {
    try {
      return tables.appliedTs(table, uuid);
    } catch (RuntimeException e) {
      LOG.warn(LogFields.of(table), "the table cannot be read: its entries stay in the head", e);
      return DataTables.UNKNOWN;
    }
  }
}
