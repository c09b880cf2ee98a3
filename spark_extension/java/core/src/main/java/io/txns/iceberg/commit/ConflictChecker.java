package io.txns.iceberg.commit;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.log.Permitted;
import io.txns.iceberg.meta.WhatHelps;
import io.txns.iceberg.meta.WhatHelps.Clash;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiPredicate;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;

/**
 * Validates a transaction once, from its {@code read_ts} to the head.
 *
 * <p>Never statement by statement: replaying the checks of single operations loses updates. Pure at
 * the level of tables; where files tell whether two really clash, they are asked.
 */
final class ConflictChecker {
  /** What adds and removes files, and leaves a table's shape as it is. */
  static final Set<Operation> OF_FILES =
      Set.of(Operation.APPEND, Operation.OVERWRITE, Operation.DELETE, Operation.REPLACE);

  private static final Set<EntryKind> OF_ROWS = Set.of(EntryKind.COMMIT, EntryKind.ADOPT);

  private static final String BY_TABLE = "table";

  private final String txnId;
  private final Isolation isolation;
  private final ReadSet reads;
  private final Map<TableIdentifier, StagedTable> writes;
  private final Optional<FileConflicts> files;

  /**
   * @param files tells clashes from meetings in one table; empty where tables alone count
   */
  ConflictChecker(
      String txnId,
      Isolation isolation,
      ReadSet reads,
      Map<TableIdentifier, StagedTable> writes,
      Optional<FileConflicts> files) {
    this.txnId = txnId;
    this.isolation = isolation;
    this.reads = reads;
    this.writes = writes;
    this.files = files;
  }

  /**
   * Check against everything that committed since.
   *
   * @param newer entries above {@code read_ts}, ascending
   * @param which of their changes; the others are left to a later check
   * @throws TxnException 40001 naming the table, the other transaction and the least {@code
   *     read_ts} that would not clash
   */
  void validate(List<Entry> newer, BiPredicate<Entry, Change> which) {
    long leastTs = newer.isEmpty() ? 0 : newer.get(newer.size() - 1).commitTs();
    TxnException first = null;
    for (Entry entry : newer) {
      for (Change change : entry.changes()) {
        String reason = which.test(entry, change) ? clash(entry, change) : null;
        if (reason == null) {
          continue;
        }
        boolean onlyRead = isolation.validatesReads() && !losesAtSnapshot(newer, which);
        String told = reason + whatHelps(entry, change, onlyRead);
        TxnException conflict =
            TxnException.conflict(change.table(), txnId, entry.winner(), leastTs, told);
        if (!mayBeAnothers(entry, change)) {
          throw conflict;
        }
        first = first == null ? conflict : first;
      }
    }
    if (first != null) {
      throw first;
    }
  }

  /** Whether what was met is not known to be of an entry: who came first may stand later. */
  private boolean mayBeAnothers(Entry entry, Change change) {
    return goesByFiles(entry, change) && files.get().metAnybodys(entry, change);
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
    String rows = rowsClash("a table that it read was written", entry, change);
    if (rows != null || isSameRows(entry, change)) {
      return rows;
    }
    // What it was shown of the table names the current snapshot, and its size: by file, its shape.
    boolean looked = reads.hasLookedAt(change) && !goesByFiles(entry, change);
    return looked ? "a table whose metadata it read was written" : null;
  }

  /** Hold what was read of a table against an entry; what was met, after some words. */
  private String rowsClash(String words, Entry entry, Change change) {
    List<ReadSet.RowFilter> filters = reads.filtersOf(change);
    if (filters.isEmpty() || isSameRows(entry, change)) {
      return null;
    }
    if (!goesByFiles(entry, change)) {
      return words + " (filter " + inWords(change, filters) + ")";
    }
    return files.get().met(entry, change).map(met -> words + " (" + met.words() + ")").orElse(null);
  }

  /** What would keep the transaction apart from a change that clashes with it. */
  private String whatHelps(Entry entry, Change change, boolean onlyRead) {
    Clash clash = kind(entry, change);
    TableMetadata base = reads.baseOf(change.uuid());
    List<String> byTable = new ArrayList<>();
    if (files.isEmpty()) {
      byTable.add("transaction");
    }
    if (base != null && BY_TABLE.equals(base.properties().get(Permitted.CONFLICTS))) {
      byTable.add("table");
    }
    List<Expression> filters =
        (clash == Clash.ROWS ? met(entry, change) : List.<ReadSet.RowFilter>of())
            .stream()
                .map(each -> base == null ? each : each.within(base))
                .map(ReadSet.RowFilter::expression)
                .toList();
    return WhatHelps.words(clash, base, filters, byTable, onlyRead);
  }

  /** Whether any of what committed since would clash there as well. */
  private boolean losesAtSnapshot(List<Entry> newer, BiPredicate<Entry, Change> which) {
    ConflictChecker there = new ConflictChecker(txnId, Isolation.SNAPSHOT, reads, writes, files);
    return newer.stream()
        .anyMatch(
            entry ->
                entry.changes().stream()
                    .anyMatch(
                        change -> which.test(entry, change) && there.clash(entry, change) != null));
  }

  private Clash kind(Entry entry, Change change) {
    StagedTable write = writes.get(change.table());
    if (write != null && write.isCreate()) {
      return Clash.CREATED;
    }
    boolean renamed = write == null && writeOf(change) != null;
    if (!OF_ROWS.contains(entry.kind()) || renamed) {
      return Clash.OTHER;
    }
    if (!OF_FILES.contains(change.operation()) && entry.kind() != EntryKind.ADOPT) {
      return change.operation() == Operation.ALTER ? Clash.ALTERED : Clash.OTHER;
    }
    if (write == null || write.isAppendOnly()) {
      return Clash.ROWS;
    }
    if (write.changesOnlyFiles()) {
      return reads.hasConditionalWrite(change) ? Clash.ROWS : Clash.OTHER;
    }
    return write.alters() ? Clash.ALTERS : Clash.OTHER;
  }

  /** The filter that has met a change; where tables decide, all of them. */
  private List<ReadSet.RowFilter> met(Entry entry, Change change) {
    List<ReadSet.RowFilter> filters = reads.filtersOf(change);
    if (isSameRows(entry, change)) {
      return List.of();
    }
    if (filters.isEmpty() || !goesByFiles(entry, change)) {
      return filters;
    }
    return files.get().met(entry, change).stream()
        .map(Meetings.Meeting::filter)
        .filter(Objects::nonNull)
        .toList();
  }

  private String inWords(Change change, List<ReadSet.RowFilter> filters) {
    TableMetadata base = reads.baseOf(change.uuid());
    Schema schema = base == null ? new Schema() : base.schema();
    return new FilterWords(schema)
        .ofAny(filters.stream().map(ReadSet.RowFilter::expression).toList());
  }

  /**
   * Whether files tell what an entry has done to a table. An adoption that takes a branch away
   * alters the table by its word, and has only appended.
   */
  private boolean goesByFiles(Entry entry, Change change) {
    TableMetadata base = reads.baseOf(change.uuid());
    return files.isPresent()
        && OF_ROWS.contains(entry.kind())
        && (OF_FILES.contains(change.operation()) || entry.kind() == EntryKind.ADOPT)
        && (base == null || !BY_TABLE.equals(base.properties().get(Permitted.CONFLICTS)));
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
    if (!reads.hasConditionalWrite(change) || isSameRows(entry, change)) {
      return null;
    }
    String words = "a table that it looked through for rows to change was written";
    boolean byFile = goesByFiles(entry, change) && !reads.filtersOf(change).isEmpty();
    return byFile ? rowsClash(words, entry, change) : words;
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
    boolean byRows = reads.hasConditionalWrite(change);
    if (write.isAppendOnly() && !byRows) {
      return appendClash(entry, change);
    }
    String words = "a table that it wrote over was written";
    boolean compacts = write.compacts();
    boolean chosen = reads.filtersOf(change).isEmpty() ? compacts && !byRows : compacts || byRows;
    boolean byFile = chosen && write.changesOnlyFiles() && goesByFiles(entry, change);
    return byFile ? rowsClash(words, entry, change) : words; // its files restaging looks at
  }

  private String appendClash(Entry entry, Change change) {
    if (change.operation() == Operation.CREATE || change.operation() == Operation.DROP) {
      return "a table that it appended to was created or dropped";
    }
    if (isSameRows(entry, change)) {
      return null;
    }
    // Rows made from what was there: the update that is lost is of all that it has read.
    String rows = rowsClash("a table that it read and appended to was written", entry, change);
    if (rows != null) {
      return rows;
    }
    boolean altered = change.operation() == Operation.ALTER && entry.kind() != EntryKind.ADOPT;
    return altered && reads.hasLookedAt(change)
        ? "a table whose metadata it read and that it appended to was altered"
        : null;
  }
}
