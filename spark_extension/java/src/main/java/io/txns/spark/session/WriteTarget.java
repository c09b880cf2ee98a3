package io.txns.spark.session;

import io.txns.spark.TxnSparkCatalog;

/**
 * What a plan writes to.
 *
 * @param catalog the catalog if it is ours, else null
 * @param what the write, for messages
 */
public record WriteTarget(TxnSparkCatalog catalog, String what) {

  public static WriteTarget table(TxnSparkCatalog catalog, String name) {
    return new WriteTarget(catalog, "a write to " + name);
  }
}
