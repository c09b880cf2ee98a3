package io.txns.iceberg.catalog;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.TableMark;
import java.util.OptionalLong;
import org.apache.iceberg.TableMetadata;

/**
 * Which table it is, under whatever name: another one may have the name by now, or the table may
 * have been dropped and created again on its physical one.
 *
 * @param created {@code commit_ts} of the incarnation; empty where it is not known: of a table that
 *     is not under care, or that is dropped, or about to be created
 */
record TableIdentity(String uuid, OptionalLong created) {
  static TableIdentity of(TableMetadata metadata) {
    OptionalLong created =
        TableMark.isDropped(metadata.currentSnapshot())
            ? OptionalLong.empty()
            : TableMark.of(metadata).stream().mapToLong(TableMark::created).findAny();
    return new TableIdentity(TableNames.uuid(metadata), created);
  }

  /** The one that a transaction works on. */
  static TableIdentity of(StagedTable staged) {
    return staged.isCreate() ? ofUuid(TableNames.uuid(staged.base())) : of(staged.base());
  }

  /** A table of which no more is known. */
  static TableIdentity ofUuid(String uuid) {
    return new TableIdentity(uuid, OptionalLong.empty());
  }

  /** Whether both are the same table, as far as one can tell. */
  boolean is(TableIdentity other) {
    boolean told = created.isPresent() && other.created.isPresent();
    return uuid.equals(other.uuid) && (!told || created.equals(other.created));
  }
}
