/**
 * Where a commit happens: validate, restage, swap, apply, tidy; and the registration that commits
 * like them.
 *
 * <p>May import: {@code stage} and below, and the values of {@code io.txns.iceberg} (errors,
 * options, clock). Internal: public is what another room needs.
 */
package io.txns.iceberg.commit;
