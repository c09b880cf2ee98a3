/**
 * Rules over plans: one moment for all that a plan reads, what it reads and writes, and no write
 * past a transaction.
 *
 * <p>May import: {@code procedure} and below, {@code TxnSqlException}, and {@code io.txns.iceberg}.
 * Internal: public is what another room needs.
 */
package io.txns.spark.plan;
