/**
 * The protocol as an Iceberg catalog: transactions, the tables that they see, and the operations
 * that stage or commit.
 *
 * <p>May import: {@code commit} and below, and the values of {@code io.txns.iceberg} (errors,
 * options, clock). Internal: public is what another room needs.
 */
package io.txns.iceberg.catalog;
