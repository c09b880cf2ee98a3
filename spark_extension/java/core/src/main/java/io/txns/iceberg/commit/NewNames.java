package io.txns.iceberg.commit;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.stage.StagedTable;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

/**
 * Names of new tables that a catalog may take for those of others, since they differ in letters
 * alone (docs/spec.md 6.4). Which letters it folds a catalog tells once it has one of them.
 */
final class NewNames {
  private NewNames() {}

  /**
   * Refuse to write two tables that may be one: both are new, or stand on one that was dropped.
   *
   * @throws TxnException 0A000, the second one might never be carried out
   */
  static void refuseAlike(Collection<StagedTable> writes) {
    Map<String, List<StagedTable>> byLetters = new HashMap<>();
    for (StagedTable write : writes) {
      List<StagedTable> others =
          byLetters.computeIfAbsent(
              TableNames.folded(write.identifier()), letters -> new ArrayList<>());
      for (StagedTable other : others) {
        if (mayBeOne(write, other)) {
          throw TxnException.unsupported(
              String.format(
                  "the names of two tables that it creates differ in letters alone, and the catalog"
                      + " may take both for one: create one of them in a transaction of its own;"
                      + " table=`%s` other=`%s`",
                  write.identifier(), other.identifier()));
        }
      }
      others.add(write);
    }
  }

  private static boolean mayBeOne(StagedTable write, StagedTable other) {
    return write.isCreate() && other.isCreate()
        || TableNames.uuid(write.base()).equals(TableNames.uuid(other.base()));
  }
}
