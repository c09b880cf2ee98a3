/**
 * Transactions in Spark: the catalog, the SQL statements and what keeps both consistent.
 *
 * <p>{@link io.txns.spark.TxnSparkCatalog} is Iceberg's Spark catalog over the tables of {@code
 * io.txns.iceberg}; {@link io.txns.spark.TxnSparkExtensions} adds the statements ({@code BEGIN},
 * {@code COMMIT} and so on). Both meet in the state of one Spark session.
 */
package io.txns.spark;
