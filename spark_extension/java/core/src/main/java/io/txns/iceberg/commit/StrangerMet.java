package io.txns.iceberg.commit;

import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Under its lock an attempt has met rows that strangers appended: they are adopted first, without
 * the lock. It ends the attempt, and nobody else is told.
 */
final class StrangerMet extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final transient TableIdentifier table;

  StrangerMet(TableIdentifier table) {
    super(table.toString(), null, false, false);
    this.table = table;
  }

  TableIdentifier table() {
    return table;
  }
}
