package io.txns.iceberg.log;

import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.LongPredicate;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;

/** The newest archived changes that were applied to tables: what these must show. */
public final class NewestApplied {
  private static final List<String> COLUMNS = List.of("commit_ts", "txn_id", "kind", "table_uuid");

  private final CommitLog log;

  private volatile Known known = Known.ofNothingAbove(Long.MAX_VALUE);

  /** A change that was applied to a table; its {@code commit_ts} is in ms. */
  private record Shown(long commitTs, String txnId) {
    Shown newer(Shown other) {
      return other.commitTs > commitTs ? other : this;
    }
  }

  /**
   * What has been read.
   *
   * @param version of the archive, when it was asked
   * @param above the bound, in ms, above which rows were read
   * @param upto at and below this {@code commit_ts}, in ms, no row will be added: an entry that
   *     could not leave the head for long is archived below newer ones
   * @param byUuid the newest changes, by the table's uuid
   * @param forgotten uuids of tables that were taken from care, and not registered again
   */
  private record Known(
      String version, long above, long upto, Map<String, Shown> byUuid, Set<String> forgotten) {
    static Known ofNothingAbove(long ts) {
      return new Known(null, ts, ts, Map.of(), Set.of());
    }

    long ts(String uuid, long above) {
      Shown shown = byUuid.get(uuid);
      return shown == null ? above : Math.max(above, shown.commitTs());
    }
  }

  NewestApplied(CommitLog log) {
    this.log = log;
  }

  /**
   * The greatest {@code commit_ts} of what was applied to a table and has left the head.
   *
   * @param head whose archive is asked; the same version of it is read once, for all tables. What
   *     has left a newer one says nothing: the table may have been read before that
   * @param above a bound, in ms, which is given where there is nothing above it
   * @param marked whether the table has its mark: without one, a forgotten table is its owner's
   */
  public long ts(Head head, String uuid, long above, boolean marked) {
    if (!head.exists() || above >= head.state().tidiedUpto()) {
      return above;
    }
    // With the change that `has` asks for.
    Known found = knownAbove(head, above - 1);
    long newest = found.ts(uuid, above);
    if (newest > above && !head.state().hasLeft(newest)) {
      found = readOf(head, uuid, above);
      newest = found.ts(uuid, above);
    }
    return marked || !found.forgotten().contains(uuid) ? newest : above;
  }

  /** Whether a change that a table shows has left the head; true where a newer one has. */
  boolean has(Head head, String uuid, long commitTs, String txnId) {
    Shown shown = knownAbove(head, commitTs - 1).byUuid().get(uuid);
    return shown != null
        && (shown.commitTs() > commitTs || shown.equals(new Shown(commitTs, txnId)));
  }

  /** What is known of the newest changes above a bound in ms, read where it is not. */
  private Known knownAbove(Head head, long above) {
    Known found = above < known.above() ? Known.ofNothingAbove(above) : known;
    if (!head.archiveVersion().equals(found.version())) {
      found = read(found, head, Expressions.greaterThan("commit_ts", found.upto()), ts -> true);
      known = found;
    }
    return found;
  }

  /** What has left this very head of one table. */
  private Known readOf(Head head, String uuid, long above) {
    Expression within =
        Expressions.and(
            Expressions.greaterThan("commit_ts", above),
            Expressions.lessThanOrEqual("commit_ts", head.state().tidiedUpto()),
            Expressions.equal("table_uuid", uuid));
    return read(Known.ofNothingAbove(above), head, within, head.state()::hasLeft);
  }

  /** What is known, and what the archive has besides, of which nothing is kept. */
  private Known read(Known before, Head head, Expression filter, LongPredicate counts) {
    Map<String, Shown> byUuid = new HashMap<>(before.byUuid());
    Map<String, Long> forgets = new HashMap<>();
    Map<String, Long> others = new HashMap<>();
    Archive.read(
        log.table(),
        filter,
        COLUMNS,
        record -> {
          EntryKind kind = EntryKind.parse((String) record.getField("kind"));
          String uuid = (String) record.getField("table_uuid");
          Long commitTs = (Long) record.getField("commit_ts");
          if (uuid != null && counts.test(commitTs)) {
            (kind == EntryKind.FORGET ? forgets : others).merge(uuid, commitTs, Math::max);
            if (kind.isApplied()) {
              Shown shown = new Shown(commitTs, (String) record.getField("txn_id"));
              byUuid.merge(uuid, shown, Shown::newer);
            }
          }
        });
    Set<String> forgotten = new HashSet<>(before.forgotten());
    others.keySet().forEach(forgotten::remove);
    forgets.forEach(
        (uuid, commitTs) -> {
          if (commitTs > others.getOrDefault(uuid, 0L)) {
            forgotten.add(uuid);
          }
        });
    long upto = Math.max(before.upto(), head.state().archivedUpto());
    return new Known(
        head.archiveVersion(), before.above(), upto, Map.copyOf(byUuid), Set.copyOf(forgotten));
  }
}
