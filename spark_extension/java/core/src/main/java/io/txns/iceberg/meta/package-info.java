/**
 * What Iceberg lacks, without a word of the protocol: snapshots and manifest lists with other
 * fields, ids of columns, schemas and specs, the times in a table's metadata.
 *
 * <p>May import: no other room, and the values of {@code io.txns.iceberg} (errors, options, clock).
 * Internal: public is what another room needs.
 */
package io.txns.iceberg.meta;
