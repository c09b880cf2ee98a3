package io.txns.iceberg.commit;

import io.txns.iceberg.stage.ReadSet.RowFilter;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;

/**
 * What of others has met the reads of one transaction, as far as it was looked at.
 *
 * <p>Whoever looks again, at a later attempt or under a lock, hands it on: what a snapshot has
 * changed stays as it is, and its manifests are not read again. Threads may ask at once.
 */
public final class Meetings {
  private final Map<String, OfTable> tables = new HashMap<>();

  /**
   * What a filter has met of a snapshot.
   *
   * @param author the transaction that the snapshot names; empty where it names none
   * @param filter null where everything has met: what was read cannot be held against files
   */
  record Meeting(String author, String words, RowFilter filter) {}

  /** By the newest snapshot of each state of a table that was looked at. */
  private record OfTable(List<RowFilter> filters, Map<Long, List<Meeting>> states) {}

  /** What has met some filters in a state of a table; empty where nobody has looked at it. */
  synchronized Optional<List<Meeting>> of(String uuid, List<RowFilter> filters, long newest) {
    OfTable table = tables.get(uuid);
    return table == null || !table.filters().equals(filters)
        ? Optional.empty()
        : Optional.ofNullable(table.states().get(newest));
  }

  /** A state of a table was looked at: what was read by other filters is forgotten. */
  synchronized void found(
      String uuid, List<RowFilter> filters, long newest, List<Meeting> meetings) {
    OfTable table = tables.get(uuid);
    if (table == null || !table.filters().equals(filters)) {
      table = new OfTable(List.copyOf(filters), new HashMap<>());
      tables.put(uuid, table);
    }
    table.states().put(newest, List.copyOf(meetings));
  }
}
