/**
 * One data table as of a timestamp: its mark, its logged state, what strangers did to it, and the
 * log laid over it.
 *
 * <p>May import: {@code log} and below, and the values of {@code io.txns.iceberg} (errors, options,
 * clock). Internal: public is what another room needs.
 */
package io.txns.iceberg.table;
