/**
 * What {@code CALL system....} runs.
 *
 * <p>May import: {@code session} and below, {@code TxnSqlException}, and {@code io.txns.iceberg}.
 * Internal: public is what another room needs.
 */
package io.txns.spark.procedure;
