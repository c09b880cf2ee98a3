package io.txns.iceberg.catalog;

import io.txns.iceberg.Isolation;

/**
 * How a transaction was begun.
 *
 * @param id its idempotence key
 * @param hasFreshId whether nobody can have used the id before
 * @param isolation what is validated at its commit
 * @param byFile whether only what meets in files clashes, and not all of one table
 * @param readOnly whether writes are refused
 * @param explicit whether its user has begun it; otherwise it stands for one statement
 * @param toldEarly whether loading a table may tell it that it has lost
 * @param bornMs when, in ms of the wall clock
 */
public record Begun(
    String id,
    boolean hasFreshId,
    Isolation isolation,
    boolean byFile,
    boolean readOnly,
    boolean explicit,
    boolean toldEarly,
    long bornMs) {}
