package io.txns.spark;

/**
 * What a plan writes to.
 *
 * @param catalog the catalog if it is ours, else null
 * @param name for messages
 */
record WriteTarget(TxnSparkCatalog catalog, String name) {}
