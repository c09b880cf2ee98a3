/**
 * What an operator does: end what strangers did, purge what is dropped, switch transactions off and
 * on.
 *
 * <p>May import: {@code catalog} and below, and the values of {@code io.txns.iceberg} (errors,
 * options, clock). Internal: public is what another room needs.
 */
package io.txns.iceberg.admin;
