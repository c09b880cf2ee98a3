package io.txns.spark;

/**
 * What a plan writes to.
 *
 * @param catalog the catalog if it is ours, else null
 * @param what the write, for messages
 */
record WriteTarget(TxnSparkCatalog catalog, String what) {

  static WriteTarget table(TxnSparkCatalog catalog, String name) {
    return new WriteTarget(catalog, "a write to " + name);
  }
}
