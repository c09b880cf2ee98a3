/**
 * From a text to what it is: a transaction statement with its modes, DML or DDL, and the names in
 * it.
 *
 * <p>May import: {@code compat}, {@code TxnSqlException}, and {@code io.txns.iceberg}. Internal:
 * public is what another room needs.
 */
package io.txns.spark.sql;
