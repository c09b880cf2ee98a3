package io.txns.iceberg.commit;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.EntryParser;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Limits;
import io.txns.iceberg.log.Reservation;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What one swap is to append: an entry per id, made by the members that wait for it, each validated
 * against those before it. A conflict under a caller's own id is told when an abort stands under
 * it: then that is what is drafted.
 */
final class Drafts {
  private static final TxnLogger LOG = TxnLogger.of(Drafts.class);
  private static final long SKEW_WARNING_MS = 60_000;

  private final TableIdentifier log;
  private final TxnClock clock;
  private final Turns turns;
  private final Map<String, Entry> byId = new LinkedHashMap<>();
  private final Map<CommitGroup.Member, Entry> entries = new LinkedHashMap<>();
  private final Set<CommitGroup.Member> aborting = new LinkedHashSet<>();
  private final Map<CommitGroup.Member, RuntimeException> refused = new LinkedHashMap<>();

  /** The head that the swap is to stand on, with what has been drafted. */
  private Head at;

  /** What its records count for, with those that have been drafted. */
  private long bytes;

  /** What each that has been drafted counts for, by its {@code commit_ts}. */
  private final Map<Long, Long> sizes = new HashMap<>();

  private Drafts(Head head, TableIdentifier log, TxnClock clock, Turns turns) {
    this.turns = turns;
    this.at = head;
    this.bytes = head.recordBytes();
    this.log = log;
    this.clock = clock;
  }

  /**
   * Make the entries of one swap.
   *
   * @param log the commit table's name, for people
   * @throws RuntimeException the leader has been cancelled; what refuses a member is its own
   */
  static Drafts of(
      List<CommitGroup.Member> members,
      Head head,
      TableIdentifier log,
      TxnClock clock,
      Turns turns) {
    Drafts drafts = new Drafts(head, log, clock, turns);
    for (CommitGroup.Member member : members) {
      Runnable backToBefore = head.rows() == null ? () -> {} : head.rows().soFar();
      try {
        drafts.entries.put(member, drafts.draft(member));
      } catch (RuntimeException e) {
        if (Thread.currentThread().isInterrupted()) {
          throw e;
        }
        backToBefore.run();
        drafts.refuse(member, e);
      }
    }
    return drafts;
  }

  /** What is to be appended, in this order; an abort where a try under a caller's own id is one. */
  List<Entry> all() {
    return List.copyOf(byId.values());
  }

  /** Who gets which of them. */
  Map<CommitGroup.Member, Entry> entries() {
    return entries;
  }

  /** Who was refused an entry, and why. */
  Map<CommitGroup.Member, RuntimeException> refused() {
    return refused;
  }

  /** Those of whom there is something in the swap. */
  Set<CommitGroup.Member> members() {
    Set<CommitGroup.Member> members = new LinkedHashSet<>(entries.keySet());
    members.addAll(aborting);
    return members;
  }

  /** A member's entry; who comes second with an id gets the first one's, or is refused with it. */
  private Entry draft(CommitGroup.Member member) {
    String txnId = member.key().txnId();
    if (!byId.containsKey(txnId)) {
      checkTurn(member);
      long nextTs = LogFields.of(txnId).during(this::nextTs);
      long proposedTs = member.proposedTs();
      long commitTs = proposedTs == 0 ? nextTs : Math.max(proposedTs, at.upper() + 1);
      Limits.checkCommitTs(Math.max(commitTs, at.upper())); // one more than int64 is below it
      Entry entry = carrying(member, member.attempt().at(at, commitTs));
      refuseWhenOff(entry);
      checkKeepsInvariants(entry);
      checkRoom(member, entry);
      add(entry);
    }
    Entry entry = byId.get(txnId);
    if (entry.isAbort()) {
      throw barred(log, txnId, entry.commitTs());
    }
    return entry;
  }

  /** Ends the attempt of who comes before an older one; he waits without the locks of it. */
  private void checkTurn(CommitGroup.Member member) {
    List<Reservation> reserved = at.state().reserved();
    Turns.Claim claim = member.claim();
    boolean waits = !reserved.isEmpty() && !claim.uuids().isEmpty();
    if (waits && !member.attempts().mayLand() && turns.isWaitedFor(reserved, claim).isPresent()) {
      throw new Turns.MustWaitException();
    }
  }

  /** An entry with what is reserved from it on: nothing that is over. */
  private Entry carrying(CommitGroup.Member member, Entry entry) {
    Turns.Claim claim = member.claim();
    List<Reservation> unused = at.state().carriedBy(entry);
    List<Reservation> standing = unused.isEmpty() ? unused : turns.carried(at.state().reserved());
    List<Reservation> reserved =
        claim.reserved(standing.stream().filter(unused::contains).toList());
    return reserved.isEmpty() ? entry : entry.reserving(reserved);
  }

  /** Why a member is refused, with the abort without which that is not told. */
  private void refuse(CommitGroup.Member member, RuntimeException error) {
    CommitGroup.Key key = member.key();
    refused.put(member, error);
    boolean conflict = error instanceof TxnException e && e.kind() == ErrorKind.CONFLICT;
    if (!conflict || key.origin() != CommitGroup.Origin.CALLERS) {
      return;
    }
    if (at.state().off()) {
      refused.put(member, TxnException.off()); // which says nothing of other tries
    } else if (!byId.containsKey(key.txnId())) {
      long nextTs = LogFields.of(key.txnId()).during(this::nextTs);
      Entry abort = at.abort(nextTs, key.txnId(), key.sinceTs());
      add(carrying(member, abort));
      aborting.add(member);
      member.aborting(error);
    }
  }

  private void add(Entry entry) {
    long size = recordBytes(entry);
    at = at.with(entry);
    bytes += size;
    sizes.put(entry.commitTs(), size);
    byId.put(entry.txnId(), entry);
  }

  /** A transaction that the head has no room for is refused; what else there is makes some. */
  private void checkRoom(CommitGroup.Member member, Entry entry) {
    if (entry.kind() != EntryKind.COMMIT) {
      return;
    }
    long own = recordBytes(entry);
    long size = bytes + own;
    if (size <= Limits.HEAD_TABLE_MAX_BYTES) {
      return;
    }
    refuseAbove(Limits.HEAD_MAX_BYTES, size, member, "the transaction");
    Map<String, Long> byTable = byTable(entry);
    Change fullest =
        Collections.max(
            entry.changes(), Comparator.comparingLong(change -> byTable.get(change.uuid())));
    long ofTable = own + byTable.get(fullest.uuid());
    String what = "more of " + at.state().nameOf(fullest);
    refuseAbove(Limits.HEAD_TABLE_MAX_BYTES, ofTable, member, what);
  }

  private void refuseAbove(long most, long size, CommitGroup.Member member, String what) {
    if (size > most) {
      TxnException full = HeadBounds.full(at, size, most, what);
      member.hasNoRoom(full);
      throw full;
    }
  }

  /** How many bytes of records there are of each table of an entry, by its uuid. */
  private Map<String, Long> byTable(Entry entry) {
    Map<String, Long> byTable = new HashMap<>();
    entry.changes().forEach(change -> byTable.put(change.uuid(), 0L));
    for (Entry each : at.state().entries()) {
      each.changes().stream()
          .map(Change::uuid)
          .filter(byTable::containsKey)
          .distinct()
          .forEach(uuid -> byTable.merge(uuid, sizeOf(each), Long::sum));
    }
    return byTable;
  }

  /** What an entry counts for, of the head or drafted: it is not made a record again. */
  private long sizeOf(Entry entry) {
    Long drafted = sizes.get(entry.commitTs());
    return drafted == null ? at.recordBytes(entry) : drafted;
  }

  private static long recordBytes(Entry entry) {
    return Limits.recordBytes(EntryParser.toSummary(entry));
  }

  private long nextTs() {
    long nowMs = clock.nowMs();
    if (at.upper() > nowMs + SKEW_WARNING_MS) {
      LOG.warn(
          LogFields.NONE.took(at.upper() - nowMs),
          "the log is ahead of this clock: some clock is fast");
    }
    return Math.max(nowMs, at.upper() + 1);
  }

  private void refuseWhenOff(Entry entry) {
    boolean always = entry.kind() == EntryKind.ON || entry.kind() == EntryKind.OFF;
    if (at.state().off() && !always) {
      throw TxnException.off();
    }
  }

  /** What would make the log unreadable for everybody fails one transaction instead. */
  private void checkKeepsInvariants(Entry entry) {
    try {
      at.with(entry).state().validate();
    } catch (TxnException e) {
      throw TxnException.conflict(
          log, entry.txnId(), Winner.NOBODY, entry.prevTs(), "refused: " + e.getMessage());
    }
  }

  /** A try that is older than one under its id that was refused. */
  static TxnException barred(TableIdentifier log, String txnId, long abortedTs) {
    return TxnException.conflict(
        log,
        txnId,
        Winner.NOBODY,
        abortedTs,
        "a try under its id was refused after this one began");
  }
}
