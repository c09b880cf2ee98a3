/**
 * What runs: a text becomes a command here, and the command is run, with the rows that it tells of.
 *
 * <p>May import: {@code plan} and below, {@code TxnSqlException}, and {@code io.txns.iceberg}.
 * Internal: public is what another room needs.
 */
package io.txns.spark.command;
