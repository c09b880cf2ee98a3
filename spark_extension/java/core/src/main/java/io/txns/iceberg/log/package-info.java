/**
 * The commit table as a log: entries and their bytes, the head and the swap, the archive.
 *
 * <p>May import: {@code meta}, and the values of {@code io.txns.iceberg} (errors, options, clock).
 * Internal: public is what another room needs.
 */
package io.txns.iceberg.log;
