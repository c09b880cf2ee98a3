package io.txns.iceberg.table;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.Places;
import io.txns.iceberg.meta.SnapshotNumbers;
import java.util.Optional;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** Changes whose files, or numbers, are not the table's own (docs/spec.md, 7). */
final class NotItsOwn {
  private NotItsOwn() {}

  /**
   * Refuse such a change: whoever lays it over the table may have more rights than who has written
   * the log.
   *
   * @param base the table; null for a new one
   * @throws TxnException Quarantined, with the command that takes the entry away
   */
  static void refuse(TableMetadata base, LoggedChange logged, UpdateTableRequest request) {
    for (String path : Places.misplacedFiles(base, request.updates())) {
      throw notItsOwn(
          logged,
          String.format(
              "a logged change names a manifest list or statistics that do not lie below the table's"
                  + " metadata location, and is not carried out; file=`%s`",
              path));
    }
    Optional<String> number = SnapshotNumbers.farAhead(base, request.updates());
    if (number.isPresent()) {
      throw notItsOwn(
          logged,
          String.format(
              "a logged change has a number that nobody has given, so far above the table's that it"
                  + " would use up what there is, or that of a snapshot which stands on itself, and"
                  + " is not carried out; number=`%s`",
              number.get()));
    }
  }

  private static TxnException notItsOwn(LoggedChange logged, String reason) {
    TableIdentifier table = logged.change().table();
    return TxnException.quarantined(
        table,
        reason,
        String.format(
            "`txns recover --void %d` takes the entry out of the log, then CALL"
                + " system.repair(table => '%s', action => 'adopt') takes the table as it stands;"
                + " look who has written the commit table: whoever may is trusted",
            logged.commitTs(), table));
  }
}
