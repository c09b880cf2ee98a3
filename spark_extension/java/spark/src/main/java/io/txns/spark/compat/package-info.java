/**
 * What differs between versions of Spark and Iceberg, and nothing else: which ones this jar is for,
 * and the calls that another version has elsewhere.
 *
 * <p>May import: no other room, {@code TxnSqlException}, and {@code io.txns.iceberg}. Internal:
 * public is what another room needs.
 */
package io.txns.spark.compat;
