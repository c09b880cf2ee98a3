package io.txns.iceberg.log;

import io.txns.iceberg.TransactionRow;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.Stream;

/**
 * Head and archive as one sequence: every entry once, ascending by {@code commit_ts}.
 *
 * <p>An entry leaves the head when every table shows it (docs/spec.md 10, I6); who reads both meets
 * it in both, or in an archive that is newer than its head.
 */
public record Timeline(Archive archive) {

  /** Every entry above a timestamp in ms: of a head, and what has left it since. */
  public List<Entry> above(LogState state, long ts) {
    TreeMap<Long, Entry> entries = new TreeMap<>();
    if (state.tidiedUpto() > ts) {
      archive.between(ts, state.tidiedUpto()).forEach(one -> entries.put(one.commitTs(), one));
    }
    state.after(ts).forEach(one -> entries.put(one.commitTs(), one));
    return List.copyOf(entries.values());
  }

  /** The entries of a head and its archive that name a table, above a timestamp in ms. */
  public List<Entry> ofTable(LogState state, String uuid, long ts) {
    TreeMap<Long, Entry> entries = new TreeMap<>();
    if (state.tidiedUpto() > ts) {
      archive.ofTable(uuid, ts).forEach(one -> entries.put(one.commitTs(), one));
    }
    state.after(ts).stream()
        .filter(one -> one.changes().stream().anyMatch(change -> change.uuid().equals(uuid)))
        .forEach(one -> entries.put(one.commitTs(), one));
    return List.copyOf(entries.values());
  }

  /**
   * The entries under an id, ascending: once one has committed there is no abort.
   *
   * @param sinceTs the archive is asked for what has left the head above it, in ms
   */
  public List<Entry> under(LogState state, String txnId, long sinceTs) {
    List<Entry> standing = state.under(txnId);
    if (Entry.committed(standing).isPresent() || state.tidiedUpto() <= sinceTs) {
      return standing;
    }
    return Stream.concat(archive.under(txnId, sinceTs).stream(), standing.stream()).toList();
  }

  /**
   * Whether a change that a table shows is the log's: it stands in the head, or has left it.
   *
   * @param head its upper is not below the change
   */
  public boolean has(Head head, String uuid, long commitTs, String txnId) {
    for (Entry entry : head.state().entries()) {
      if (entry.commitTs() == commitTs) {
        return entry.txnId().equals(txnId);
      }
    }
    // Above tidied-upto the head is complete.
    return commitTs <= head.state().tidiedUpto()
        && archive.newestApplied().has(head, uuid, commitTs, txnId);
  }

  /** Whether a table had been dropped, and not created again, at a timestamp in ms. */
  public boolean wasDropped(LogState state, String uuid, long ts) {
    TreeMap<Long, Operation> deeds = new TreeMap<>();
    Stream<Entry> standing = state.entries().stream().filter(entry -> entry.commitTs() <= ts);
    Stream.concat(archive.livesOfTable(uuid, ts).stream(), standing)
        .forEach(
            entry ->
                entry.changes().stream()
                    .filter(change -> change.uuid().equals(uuid))
                    .map(Change::operation)
                    .filter(deed -> deed == Operation.CREATE || deed == Operation.DROP)
                    .forEach(deed -> deeds.put(entry.commitTs(), deed)));
    return !deeds.isEmpty() && deeds.lastEntry().getValue() == Operation.DROP;
  }

  /**
   * The archive's rows for what there is, ascending by {@code commit_ts}.
   *
   * @param isApplied says it of an entry that stands in the head
   * @param after only entries above it, in ms
   * @param limit the newest entries, so many at most
   */
  public List<TransactionRow> rows(
      LogState state, Predicate<Entry> isApplied, long after, int limit) {
    List<TransactionRow> rows = new ArrayList<>();
    if (state.tidiedUpto() > after && state.after(state.tidiedUpto()).size() < limit) {
      boolean all = limit == Integer.MAX_VALUE;
      rows.addAll(archive.above(all ? after : archive.boundOfNewest(limit, after)));
    }
    Set<Long> archived = rows.stream().map(TransactionRow::commitTs).collect(Collectors.toSet());
    state.after(after).stream()
        .filter(entry -> !archived.contains(entry.commitTs()))
        .forEach(entry -> rows.addAll(Archive.rowsOf(entry, isApplied.test(entry))));
    rows.sort(Comparator.comparingLong(TransactionRow::commitTs));
    Set<Long> newest =
        rows.stream()
            .map(TransactionRow::commitTs)
            .distinct()
            .sorted(Comparator.reverseOrder())
            .limit(limit)
            .collect(Collectors.toSet());
    return rows.stream().filter(row -> newest.contains(row.commitTs())).toList();
  }
}
