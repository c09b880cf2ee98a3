/**
 * One session's state: its transaction, what runs in its threads, its time-out, its cached plans,
 * its catalogs, when its queries read.
 *
 * <p>May import: {@code sql} and below, {@code TxnSqlException}, and {@code io.txns.iceberg}.
 * Internal: public is what another room needs.
 */
package io.txns.spark.session;
