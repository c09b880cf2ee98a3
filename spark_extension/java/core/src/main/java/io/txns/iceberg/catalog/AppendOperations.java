package io.txns.iceberg.catalog;

import io.txns.iceberg.meta.DelegatingOperations;
import java.util.function.BooleanSupplier;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;

/** What appends to a table commit through: so they are known as appends. */
final class AppendOperations extends DelegatingOperations {
  private final TxnTableOperations table;
  private final BooleanSupplier onlyAppends;

  AppendOperations(TxnTableOperations table) {
    this(table, () -> true);
  }

  /**
   * @param onlyAppends whether what is committed was made by appends alone
   */
  AppendOperations(TxnTableOperations table, BooleanSupplier onlyAppends) {
    this.table = table;
    this.onlyAppends = onlyAppends;
  }

  @Override
  public TableOperations real() {
    return table;
  }

  @Override
  public TableMetadata current() {
    return table.current();
  }

  @Override
  public TableMetadata refresh() {
    return table.refresh();
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    if (onlyAppends.getAsBoolean()) {
      table.commitAppend(base, metadata);
    } else {
      table.commit(base, metadata);
    }
  }
}
