package io.txns.iceberg.log;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.LongPredicate;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;

/** The newest archived changes that were applied to tables: what these must show. */
public final class NewestApplied {
  private static final List<String> COLUMNS = List.of("commit_ts", "txn_id", "kind", "table_uuid");

  private final CommitLog log;

  private volatile Known known = Known.ofNothingAbove(Long.MAX_VALUE);

  /** An archived entry; its {@code commit_ts} is in ms. */
  private record Archived(long commitTs, String txnId, EntryKind kind) {}

  /**
   * The newest archived entries that name a table.
   *
   * @param named of any kind
   * @param shown one that was applied to it, which it has to show; null for none
   */
  private record OfTable(Archived named, Archived shown) {
    static final OfTable NONE = new OfTable(null, null);

    OfTable with(Archived one) {
      return new OfTable(newer(named, one), one.kind().isApplied() ? newer(shown, one) : shown);
    }

    private static Archived newer(Archived known, Archived one) {
      return known == null || one.commitTs() > known.commitTs() ? one : known;
    }

    boolean isNamedAbove(long ts) {
      return named != null && named.commitTs() > ts;
    }

    boolean isForgotten() {
      return named != null && named.kind() == EntryKind.FORGET;
    }
  }

  /**
   * What has been read.
   *
   * @param version of the archive, when it was asked
   * @param above the bound, in ms, above which rows were read
   * @param upto at and below this {@code commit_ts}, in ms, no row will be added: an entry that
   *     could not leave the head for long is archived below newer ones
   * @param byUuid the newest entries, by the table's uuid
   */
  private record Known(String version, long above, long upto, Map<String, OfTable> byUuid) {
    static Known ofNothingAbove(long ts) {
      return new Known(null, ts, ts, Map.of());
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
    OfTable left = left(head, uuid, above - 1);
    boolean isOwners = left.isForgotten() && !marked;
    return isOwners || left.shown() == null ? above : Math.max(above, left.shown().commitTs());
  }

  /** Whether a change that a table shows has left the head; true where a newer one has. */
  boolean has(Head head, String uuid, long commitTs, String txnId) {
    Archived shown = left(head, uuid, commitTs - 1).shown();
    return shown != null
        && (shown.commitTs() > commitTs
            || shown.commitTs() == commitTs && shown.txnId().equals(txnId));
  }

  /** What of a table above a bound, in ms, has left this very head. */
  private OfTable left(Head head, String uuid, long above) {
    OfTable found = knownAbove(head, above).byUuid().getOrDefault(uuid, OfTable.NONE);
    if (!found.isNamedAbove(above) || head.state().hasLeft(found.named().commitTs())) {
      return found;
    }
    Expression within =
        Expressions.and(
            Expressions.greaterThan("commit_ts", above),
            Expressions.lessThanOrEqual("commit_ts", head.state().tidiedUpto()),
            Expressions.equal("table_uuid", uuid));
    return read(Map.of(), within, head.state()::hasLeft).getOrDefault(uuid, OfTable.NONE);
  }

  /** What is known of the newest entries above a bound, in ms, read where it is not. */
  private Known knownAbove(Head head, long above) {
    Known found = known; // read once: what another thread puts there may begin above that
    if (above < found.above()) {
      found = Known.ofNothingAbove(above);
    }
    if (!head.archiveVersion().equals(found.version())) {
      found = readMore(found, head);
      known = found;
    }
    return found;
  }

  /** What is known, and what the archive of a head has above that. */
  private Known readMore(Known before, Head head) {
    Expression above = Expressions.greaterThan("commit_ts", before.upto());
    Map<String, OfTable> byUuid = read(before.byUuid(), above, ts -> true);
    long upto = Math.max(before.upto(), head.state().archivedUpto());
    return new Known(head.archiveVersion(), before.above(), upto, byUuid);
  }

  /** What is known, and what the archive has besides, of which nothing else is kept. */
  private Map<String, OfTable> read(
      Map<String, OfTable> before, Expression filter, LongPredicate counts) {
    Map<String, OfTable> byUuid = new HashMap<>(before);
    ArchiveScan.read(
        log.table(),
        filter,
        COLUMNS,
        record -> {
          String uuid = (String) record.getField("table_uuid");
          long commitTs = (Long) record.getField("commit_ts");
          if (uuid != null && counts.test(commitTs)) {
            EntryKind kind = EntryKind.parse((String) record.getField("kind"));
            Archived one = new Archived(commitTs, (String) record.getField("txn_id"), kind);
            byUuid.put(uuid, byUuid.getOrDefault(uuid, OfTable.NONE).with(one));
          }
        });
    return Map.copyOf(byUuid);
  }
}
