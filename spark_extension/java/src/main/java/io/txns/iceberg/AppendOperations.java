package io.txns.iceberg;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;

/** What appends to a table commit through, and nothing else: so they are known as appends. */
final class AppendOperations extends DelegatingOperations {
  private final TxnTableOperations table;

  AppendOperations(TxnTableOperations table) {
    this.table = table;
  }

  @Override
  TableOperations real() {
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
    table.commitAppend(base, metadata);
  }
}
