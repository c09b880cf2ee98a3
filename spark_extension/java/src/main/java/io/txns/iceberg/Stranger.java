package io.txns.iceberg;

import java.util.List;

/**
 * Commits on a data table that did not go through the protocol.
 *
 * @param headSnapshotId the newest of them: where {@code main} stands
 * @param snapshotIds those that changed rows, newest first; empty for a rollback
 * @param adoptable whether all of them only append
 * @param reason what was found, for people
 */
record Stranger(long headSnapshotId, List<Long> snapshotIds, boolean adoptable, String reason) {}
