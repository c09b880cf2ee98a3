package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.EnvironmentContext;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotChanges;
import org.apache.iceberg.TableMetadata;

/**
 * Rebuilds staged appends on a newer base, or on their own one where they have merged manifests.
 *
 * <p>Data files stay as they are. Snapshots get new ids: a change of another entry may already
 * stand on the old ones (schedule 3 of the protocol's tests).
 */
public final class Restager {
  /** Summary keys that a new snapshot computes for itself. */
  private static final Set<String> COMPUTED_PREFIXES =
      Set.of("added-", "total-", "changed-", "deleted-", "removed-", "manifests-", "entries-");

  private static final String ICEBERG_VERSION = "iceberg-version";

  private Restager() {}

  /**
   * The same appends on {@code newBase}.
   *
   * @param staged only appends ({@link StagedTable#isAppendOnly()}); on its own base inserts do,
   *     too ({@link StagedTable#isInsertOnly()})
   * @throws TxnException 40001 when the table's schema, partition spec or uuid is another one now
   */
  public static StagedTable restage(
      StagedTable staged, TableMetadata newBase, String txnId, Winner winner, long leastTs) {
    TableMetadata base = staged.base();
    boolean compatible =
        TableNames.uuid(base).equals(TableNames.uuid(newBase))
            && base.schema().sameSchema(newBase.schema())
            && base.spec().compatibleWith(newBase.spec())
            && base.formatVersion() == newBase.formatVersion();
    if (!compatible) {
      throw TxnException.conflict(
          staged.identifier(),
          txnId,
          winner,
          leastTs,
          "the table that it appends to has another schema or partitioning now");
    }
    StagedTable restaged = new StagedTable(staged.identifier(), staged.real(), newBase, false);
    BaseTable source = new BaseTable(staged.operations(), staged.identifier().toString());
    BaseTable target = new BaseTable(restaged.operations(), staged.identifier().toString());
    for (Snapshot snapshot : staged.snapshots()) {
      AppendFiles append = target.newFastAppend();
      for (Map.Entry<String, String> kept : snapshot.summary().entrySet()) {
        if (isCallers(kept.getKey())) {
          append.set(kept.getKey(), kept.getValue());
        }
      }
      SnapshotChanges.builderFor(source)
          .snapshot(snapshot)
          .build()
          .addedDataFiles()
          .forEach(append::appendFile);
      append.commit();
    }
    return restaged;
  }

  private static boolean isCallers(String key) {
    return COMPUTED_PREFIXES.stream().noneMatch(key::startsWith)
        && !ICEBERG_VERSION.equals(key)
        && !EnvironmentContext.get().containsKey(key);
  }
}
