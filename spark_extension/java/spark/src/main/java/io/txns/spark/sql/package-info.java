/**
 * From a text to what it is: the statements about transactions, their modes, the names in them.
 *
 * <p>May import: {@code compat}, {@code TxnSqlException}, and {@code io.txns.iceberg}. Internal:
 * public is what another room needs.
 */
package io.txns.spark.sql;
