package io.txns.spark.session;

/**
 * What a plan writes to.
 *
 * @param catalog the catalog if it is ours, else null
 * @param what the write, for messages
 */
public record WriteTarget(TransactionCatalog catalog, String what) {

  public static WriteTarget table(TransactionCatalog catalog, String name) {
    return new WriteTarget(catalog, "a write to " + name);
  }
}
