package io.txns.iceberg.commit;

import io.txns.iceberg.meta.Ready;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.StagedTable;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What was written for a swap before it had its rows.
 *
 * @param commitTs in ms, for which it was: it stands while the log's upper is below; 0 for none
 * @param tables by their names
 * @param built each change, with what carries it out, and what was staged for it
 */
record Ahead(
    long commitTs, Map<TableIdentifier, Ready> tables, Map<TableIdentifier, Staged> built) {
  static final Ahead NONE = new Ahead(0, Map.of(), Map.of());

  /**
   * A change that was built of what was staged up to a point.
   *
   * @param isCarriedOut whether that was tried on the table that it stands on
   */
  record Staged(StagedTable.Point point, ChangeBuilder.Built built, boolean isCarriedOut) {}

  /**
   * What {@link ChangeBuilder#build} has made of the same for the same {@code commit_ts} in ms;
   * empty for nothing.
   */
  Optional<Staged> changeOf(StagedTable staged, long commitTs) {
    return Optional.ofNullable(built.get(staged.identifier()))
        .filter(change -> commitTs == this.commitTs && change.point() == staged.point());
  }

  /** Remove what nobody has taken. */
  void end() {
    tables.values().forEach(Ready::end);
  }
}
