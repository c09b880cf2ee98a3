/**
 * Written and not committed: what one transaction has staged and read, and how that stands on a
 * newer state of its tables.
 *
 * <p>May import: {@code table} and below, and the values of {@code io.txns.iceberg} (errors,
 * options, clock). Internal: public is what another room needs.
 */
package io.txns.iceberg.stage;
