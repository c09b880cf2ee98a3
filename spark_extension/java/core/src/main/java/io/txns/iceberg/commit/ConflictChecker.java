package io.txns.iceberg.commit;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;

/**
 * Validates a transaction once, from its {@code read_ts} to the head, at the level of tables.
 *
 * <p>Never statement by statement: replaying the checks of single operations loses updates.
 */
final class ConflictChecker {
  private final String txnId;
  private final Isolation isolation;
  private final ReadSet reads;
  private final Map<TableIdentifier, StagedTable> writes;

  ConflictChecker(
      String txnId, Isolation isolation, ReadSet reads, Map<TableIdentifier, StagedTable> writes) {
    this.txnId = txnId;
    this.isolation = isolation;
    this.reads = reads;
    this.writes = writes;
  }

  /**
   * Check against everything that committed since.
   *
   * @param newer entries above {@code read_ts}, ascending
   * @throws TxnException 40001 naming the table, the other transaction and the least {@code
   *     read_ts} that would not clash
   */
  void validate(List<Entry> newer) {
    long leastTs = newer.isEmpty() ? 0 : newer.get(newer.size() - 1).commitTs();
    for (Entry entry : newer) {
      for (Change change : entry.changes()) {
        String reason = clash(entry, change);
        if (reason != null) {
          throw TxnException.conflict(change.table(), txnId, entry.winner(), leastTs, reason);
        }
      }
    }
  }

  /** Why a committed change clashes with the transaction; null when it does not. */
  private String clash(Entry entry, Change change) {
    String reason = writeClash(entry, change);
    if (reason != null) {
      return reason;
    }
    boolean appears = change.operation() == Operation.CREATE || entry.kind() == EntryKind.REGISTER;
    if (appears && reads.wasAbsent(change.table())) {
      return "a table that it found absent was created, or came under care";
    }
    return readClash(entry, change);
  }

  private String readClash(Entry entry, Change change) {
    if (!isolation.validatesReads()) {
      return null;
    }
    // What came under care for this very transaction was there before.
    boolean care = entry.kind() == EntryKind.REGISTER || entry.kind() == EntryKind.FORGET;
    boolean comesOrGoes =
        change.operation() == Operation.CREATE
            || change.operation() == Operation.DROP
            || (care && writeOf(change) == null);
    if (comesOrGoes && reads.wasListed(change.table().namespace())) {
      return "the tables of a namespace that it listed have changed";
    }
    if (isSameRows(entry, change)) {
      return null;
    }
    Expression filter = reads.filterOf(change);
    if (filter != null) {
      return "a table that it read was written (filter " + filter + ")";
    }
    // What it was shown of the table names the current snapshot, and its size.
    return reads.hasLookedAt(change) ? "a table whose metadata it read was written" : null;
  }

  /** Whether an entry has left the rows of a table as they were. */
  private static boolean isSameRows(Entry entry, Change change) {
    return change.operation() == Operation.REPLACE || entry.kind() == EntryKind.REGISTER;
  }

  /** What the transaction wrote of a table, if under another name, or the same in other letters. */
  private StagedTable writeOf(Change change) {
    StagedTable write = writes.get(change.table());
    return write != null
        ? write
        : writes.values().stream()
            .filter(each -> TableNames.uuid(each.base()).equals(change.uuid()))
            .findFirst()
            .orElse(null);
  }

  private static boolean isBasis(StagedTable write, Long snapshotId) {
    Snapshot basis = write.base().currentSnapshot();
    return basis != null && snapshotId != null && basis.snapshotId() == snapshotId;
  }

  /** A statement that found nothing to change has looked at the table all the same. */
  private String unwrittenClash(Entry entry, Change change) {
    return reads.hasConditionalWrite(change) && !isSameRows(entry, change)
        ? "a table that it found nothing to change in was written"
        : null;
  }

  private String writeClash(Entry entry, Change change) {
    StagedTable write = writeOf(change);
    if (write == null) {
      return unwrittenClash(entry, change);
    }
    if (entry.kind() == EntryKind.FORGET || entry.kind() == EntryKind.REPAIR) {
      return "a table that it wrote was taken out of care or repaired";
    }
    if (entry.kind() == EntryKind.REGISTER && isBasis(write, change.toSnapshotId())) {
      return null; // it came under care for this very transaction
    }
    if (!writes.containsKey(change.table())) {
      return "a table that it wrote was renamed and written";
    }
    if (write.isCreate()) {
      return "a table that it creates was created";
    }
    if (!write.isAppendOnly() || reads.hasConditionalWrite(change)) {
      return "a table that it wrote over was written";
    }
    return appendClash(entry, change);
  }

  private String appendClash(Entry entry, Change change) {
    if (change.operation() == Operation.CREATE || change.operation() == Operation.DROP) {
      return "a table that it appended to was created or dropped";
    }
    if (isSameRows(entry, change)) {
      return null;
    }
    // Rows that were made from what was there: the update that is lost is of the table as a whole.
    Expression filter = reads.filterOf(change);
    if (filter != null) {
      return "a table that it read and appended to was written (filter " + filter + ")";
    }
    return change.operation() == Operation.ALTER && reads.hasLookedAt(change)
        ? "a table whose metadata it read and that it appended to was altered"
        : null;
  }
}
