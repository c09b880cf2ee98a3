package io.txns.iceberg.commit;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.LocalPermissions;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.TableMark;
import java.util.List;
import java.util.Optional;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** The data tables that changes are due on, as an applier loads them (docs/spec.md, 8.1). */
final class DueTables {
  private final Catalog delegate;
  private final CommitLog log;
  private final DataTables tables;

  DueTables(Catalog delegate, CommitLog log, DataTables tables) {
    this.delegate = delegate;
    this.log = log;
    this.tables = tables;
  }

  /** The table's operations past every cache; null where the catalog does not have it. */
  TableOperations load(TableIdentifier table) {
    try {
      return ((BaseTable) LocalPermissions.load(delegate, table)).operations();
    } catch (NoSuchTableException e) {
      return null;
    }
  }

  /**
   * The operations of a table to carry out what a head holds for it; null where the catalog does
   * not have it.
   *
   * <p>Loaded as by a reader where the table is gone, or where a forget is outstanding on one that
   * has been registered since.
   */
  TableOperations loadFor(Head head, TableIdentifier table) {
    TableOperations real = load(table);
    if (real == null ? tables.isGone(table, head) : isOlder(real.current(), head)) {
      return tables.whole(table, head).operations();
    }
    return real;
  }

  /** Whether a forget is outstanding on a table that has been registered since: it shows it. */
  private static boolean isOlder(TableMetadata metadata, Head head) {
    return head.state().afterForgetTs(TableMark.outstanding(metadata, head)) != null;
  }

  /**
   * Changes of the table, by its newest name or its uuid, whatever has been applied of them. A
   * table that was taken from care had everything before applied: whether it is there still, or
   * another one under its name, is the catalog's word.
   */
  static List<LoggedChange> changes(Head head, TableIdentifier table, TableOperations real) {
    String uuid = real == null ? null : TableNames.uuid(real.current());
    return LogState.withoutEnded(
        head.state().entries().stream()
            .flatMap(
                entry ->
                    entry.carried().stream()
                        .filter(
                            change ->
                                head.state().nameOf(change).equals(table)
                                    || change.uuid().equals(uuid))
                        .map(change -> new LoggedChange(entry, change)))
            .filter(
                change ->
                    change.change().uuid().equals(uuid)
                        || change.commitTs() > head.state().forgottenTs(change.change().uuid()))
            .toList());
  }

  /**
   * The operations of a table that is to leave care, loaded as by a reader: a forget asks nothing
   * of what it stands on, so nothing else tells of a replica that lags, or of a table that was set
   * back.
   *
   * @throws CommitFailedException where what comes before the forget is not applied any more
   */
  TableOperations whole(TableIdentifier table, LoggedChange forget, Head head) {
    TableOperations real = tables.whole(table, head).operations();
    checkMark(table, head, real);
    TableMetadata base = real.current();
    long applied = TableMark.applied(base);
    if (!head.state().changes(TableNames.uuid(base), applied, forget.commitTs() - 1).isEmpty()) {
      throw new CommitFailedException("Cannot commit: the table was set back: %s", table);
    }
    return real;
  }

  /** Refuses a table that is marked by this log, and does not belong to it (spec 8.1, 2). */
  void checkMark(TableIdentifier table, Head head, TableOperations real) {
    Optional<TableMark> mark = real == null ? Optional.empty() : TableMark.of(real.current());
    if (mark.isPresent() && mark.get().commitTable().equals(log.identifier())) {
      tables.checkMark(table, real.current(), mark.get(), head);
    }
  }
}
