package io.txns.iceberg.commit;

import io.txns.iceberg.LogFields;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Reservation;
import io.txns.iceberg.log.Swap;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.Refusal;
import io.txns.iceberg.meta.Rows;
import io.txns.iceberg.meta.RowsBusyException;
import io.txns.iceberg.stage.StagedTable;
import java.util.Collection;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Appends entries to the log: the only retry loop of the protocol.
 *
 * <p>An attempt whose answer was lost, or was a refusal, is settled by a later head: the entry is
 * there, or the head has moved past what the attempt stood on and it can never land. A conflict
 * under a caller's own id is told when an abort stands under it: earlier tries may be on their way.
 */
public final class CommitLoop {
  private static final TxnLogger LOG = TxnLogger.of(CommitLoop.class);
  private static final int MAX_ATTEMPTS = 50;
  private static final long MAX_MS = 30_000;

  /** After a race that was lost. */
  private static final long BACK_OFF_MAX_MS = 5;

  /**
   * After attempts that catalog or storage failed; the first time it is 10 ms, then twice as long.
   */
  private static final long FAILED_MAX_MS = 2_000;

  /** After which who waits for his turn looks at the head again, at first. */
  private static final long LOOK_MS = 40;

  private static final long LOOK_MAX_MS = 1_000;

  private final CommitLog log;
  private final Timeline timeline;
  private final HeadBounds bounds;
  private final TxnClock clock;
  private final Function<String, CommitGroup> groups;
  private final Supplier<Optional<Rows>> rows;

  /** Kept for what it knows, which another handle of the process may need after this one. */
  private volatile CommitGroup group;

  /**
   * Make a loop.
   *
   * @param groups gives the group to wait in for the uuid of the commit table
   * @param rows the catalog's: writers who lock that of the log come one after the other
   */
  public CommitLoop(
      CommitLog log,
      Timeline timeline,
      HeadBounds bounds,
      TxnClock clock,
      Function<String, CommitGroup> groups,
      Supplier<Optional<Rows>> rows) {
    this.log = log;
    this.timeline = timeline;
    this.bounds = bounds;
    this.clock = clock;
    this.groups = groups;
    this.rows = rows;
  }

  /** Append one entry, exactly once, whose swap moves no table; see below. */
  public Entry append(CommitGroup.Key key, CommitGroup.Attempt attempt) {
    return append(key, attempt, Map.of(), 0, Turns.Claim.NONE);
  }

  /**
   * Append one entry, exactly once.
   *
   * @param tables those that its swap may move with the log, as they were staged; they stand still
   *     at an attempt whose head has {@code rows}
   * @param proposedTs the {@code commit_ts} that it is to have, in ms, if the log is below; 0 for
   *     the time that it is
   * @param claim how it stands to reservations: it may have to wait
   * @param key an entry that has its id already is returned instead of a second one
   * @return the entry that stands in the log
   * @throws TxnException what {@code attempt} throws, 40001 under a caller's own id also for tries
   *     that began before; 40001 when every swap was lost, or where an abort bars a caller's try;
   *     08007 when the last answer stays unknown, and under a caller's own id when every swap was
   *     lost, since nothing is known of other tries; 55000 where the commit table is missing, or
   *     another one; what {@link TxnException#refused} says
   * @throws RuntimeException of the catalog or the storage, which is no outcome: it may be appended
   *     again
   */
  Entry append(
      CommitGroup.Key key,
      CommitGroup.Attempt attempt,
      Map<TableIdentifier, StagedTable> tables,
      long proposedTs,
      Turns.Claim claim) {
    CommitGroup members = group();
    bounds.keep(members.tries());
    // Who took the time that it is when its rows are locked would overtake all who wait behind.
    boolean isToPropose = proposedTs == 0 && rows.get().isPresent();
    long queuedTs = isToPropose ? clock.nowMs() : proposedTs;
    CommitGroup.Member member =
        appended(members, new CommitGroup.Member(key, attempt, tables, queuedTs, claim));
    Turns.Claim rest = claim.withoutWaiting();
    if (member.mustWait()) {
      key.attempts().waited(await(claim)); // who comes after that is not waited for
      member = appended(members, new CommitGroup.Member(key, attempt, tables, queuedTs, rest));
    }
    if (member.isCrowdedOut() && bounds.makeRoom(members.tries())) {
      member = appended(members, new CommitGroup.Member(key, attempt, tables, queuedTs, rest));
    }
    CommitGroup.Landed landed = member.result();
    saw(landed.holder());
    members.hear(landed.holder());
    return landed.entry();
  }

  /** What this process has seen of reservations. */
  Turns turns() {
    return group().turns(clock);
  }

  /** Tell the other handles of this process of a head. */
  public void hear(Head head) {
    if (head.exists()) {
      group().hear(head);
    }
  }

  /** The newest head that handles of this process have told of, as far as this log takes it. */
  public Head heard() {
    Head newest = log.newest();
    Head heard = newest.exists() ? group().heard() : null;
    if (heard == null) {
      return newest;
    }
    log.saw(heard);
    return log.newest();
  }

  private CommitGroup group() {
    CommitGroup found = groups.apply(log.uuid());
    group = found;
    return found;
  }

  /**
   * Waits until it is somebody's turn, without any lock, for two minutes at most.
   *
   * @return for how long, in ms
   * @throws TxnException 57014 where it is cancelled
   */
  long await(Turns.Claim claim) {
    long beganMs = clock.elapsedMs();
    long waitedMs = 0;
    Optional<Reservation> older = isWaitedFor(claim);
    while (older.isPresent() && waitedMs < Reservation.LASTS_MS_MAX) {
      long mostMs = Math.min(older.get().lastsMs() / 20, LOOK_MAX_MS);
      clock.backOff(Math.max(LOOK_MS, Math.min(waitedMs / 4, mostMs)));
      if (Thread.currentThread().isInterrupted()) {
        throw CommitGroup.cancelled();
      }
      waitedMs = clock.elapsedMs() - beganMs;
      older = isWaitedFor(claim);
    }
    return waitedMs;
  }

  /** Looks at the log, or at what was last seen of it where that fails for now. */
  private Optional<Reservation> isWaitedFor(Turns.Claim claim) {
    Head head;
    try {
      head = log.load();
    } catch (RuntimeException e) {
      if (e instanceof TxnException || Refusal.is(e) || Thread.currentThread().isInterrupted()) {
        throw e;
      }
      LOG.debug("the log cannot be asked whose turn it is, trying again", e);
      head = log.newest();
    }
    return turns().isWaitedFor(head.state().reserved(), claim);
  }

  private CommitGroup.Member appended(CommitGroup group, CommitGroup.Member member) {
    group.run(member, this::appendAll);
    return member;
  }

  /** The entry stands: an error from here would look like a commit that failed. */
  private void saw(Head holder) {
    try {
      log.saw(holder);
    } catch (RuntimeException e) {
      LOG.warn("an entry was appended, and its head is not this log's", e);
    }
  }

  /** Append those of the members that are valid, one validated against those before it. */
  void appendAll(CommitGroup.Member leader, List<CommitGroup.Member> group) {
    List<CommitGroup.Member> members = group;
    long latestMs = clock.nowMs() + MAX_MS;
    members.forEach(member -> member.endsBy(latestMs));
    int failed = 0;
    for (boolean again = false; !again || !isOver(leader); again = true) {
      if (again) {
        clock.backOff(backOffMs(failed));
      }
      members.forEach(CommitGroup.Member::isTried);
      Optional<Swap> swap = tried(members, failed);
      if (swap.isEmpty() || !leader.isOpen()) {
        return;
      }
      failed = swap.get().hasFailed() ? failed + 1 : 0;
      if (members.stream().anyMatch(CommitGroup.Member::isAlone)) {
        members = List.of(leader); // the others go on one by one, too
      }
    }
    settle(leader, members);
  }

  /** How long a pause is at most, after how many attempts in a row that had no answer. */
  private static long backOffMs(int failed) {
    return failed == 0 ? BACK_OFF_MAX_MS : Math.min(5L << Math.min(failed, 20), FAILED_MAX_MS);
  }

  private boolean isOver(CommitGroup.Member member) {
    return member.isOver(MAX_ATTEMPTS, clock.nowMs());
  }

  /** Asks for the head, and makes one swap; see {@link #attempt}. */
  private Optional<Swap> tried(List<CommitGroup.Member> members, int failed) {
    boolean asked = false;
    try (LockedRows locked = locked(members)) {
      Head head = locked == null ? log.load() : log.load(locked);
      lookUp(members, head);
      asked = true;
      return attempt(members, head);
    } catch (RowsBusyException e) {
      tell(open(members), "others hold the rows, trying again", e);
      return Optional.of(new Swap(Swap.Outcome.LOST, e));
    } catch (RuntimeException e) {
      if (asked || !isAskedAgain(members, failed, e)) {
        throw e;
      }
      tell(members, "the log cannot be asked, trying again", e);
      return Optional.of(new Swap(Swap.Outcome.NOT_SENT, e));
    }
  }

  /** Rows that an attempt is to move, the log's first, where a catalog has any; else null. */
  private LockedRows locked(List<CommitGroup.Member> members) {
    Optional<Rows> movable = rows.get();
    if (movable.isEmpty()) {
      return null;
    }
    Set<TableIdentifier> tables = new LinkedHashSet<>();
    for (CommitGroup.Member member : open(members)) {
      tables.addAll(member.tables().keySet());
      member.tables().values().stream()
          .filter(staged -> !staged.isCreate())
          .map(StagedTable::real)
          .filter(BaseMetastoreTableOperations.class::isInstance) // which have read it themselves
          .map(TableOperations::current)
          .filter(Objects::nonNull) // logged and not created yet
          .forEach(movable.get()::known);
    }
    if (log.newest().exists()) {
      movable.get().known(log.newest().metadata());
    }
    return movable.get().locked(log.identifier(), tables);
  }

  /** Whether the log has to be asked, though it cannot be: something may have landed. */
  private static boolean isAskedAgain(
      List<CommitGroup.Member> members, int failed, RuntimeException e) {
    boolean unsettled =
        failed > 0 || open(members).stream().anyMatch(member -> member.attempts().mayLand());
    boolean cancelled = Thread.currentThread().isInterrupted();
    return !cancelled && unsettled && !(e instanceof TxnException) && !Refusal.is(e);
  }

  /** One swap, if it was not won; empty where no member is open any more. */
  private Optional<Swap> attempt(List<CommitGroup.Member> members, Head head) {
    Drafts drafts = Drafts.of(open(members), head, log.identifier(), clock, turns());
    if (drafts.all().isEmpty()) {
      drafts.refused().forEach(CommitGroup.Member::failed);
      return Optional.empty();
    }
    Swap swap = swap(head, drafts);
    if (swap.outcome() == Swap.Outcome.WON) {
      drafts.refused().forEach(CommitGroup.Member::notCommitted);
      drafts.entries().forEach((member, entry) -> member.committed(entry, log.newest()));
      return Optional.empty();
    }
    tell(drafts.members(), "the swap was not won: " + swap.outcome(), swap.cause());
    // Who was refused stays as well: it may have been because of entries that have not landed.
    drafts.members().forEach(member -> member.attempts().notWon(swap.cause()));
    drafts.members().forEach(member -> member.isUnsent(swap.isUnwritten() ? swap.cause() : null));
    if (swap.outcome() == Swap.Outcome.REFUSED) {
      RuntimeException own = drafts.members().size() == 1 ? swap.cause() : null;
      drafts.members().forEach(member -> member.refused(own));
    }
    return Optional.of(swap);
  }

  /** What has become of an attempt of several: a line for each, and the cause once. */
  private static void tell(
      Collection<CommitGroup.Member> members, String what, RuntimeException cause) {
    members.forEach(member -> LOG.info(LogFields.of(member.key().txnId()), what));
    LOG.debug("why", cause);
  }

  /** Noted before it is sent: its thread may be stopped before it knows what became of it. */
  private Swap swap(Head head, Drafts drafts) {
    drafts.members().forEach(member -> member.attempts().trying(head));
    boolean sent = true;
    try {
      Swap swap = log.append(head, drafts.all());
      // Locked rows are moved by their COMMIT alone: whose were lost before has sent nothing.
      sent =
          switch (swap.outcome()) {
            case NOT_SENT -> false;
            case LOST -> head.rows() == null;
            default -> true;
          };
      return swap;
    } catch (RuntimeException e) {
      sent = false;
      throw e;
    } finally {
      if (!sent) {
        drafts.members().forEach(member -> member.attempts().notSent());
      }
    }
  }

  /** What a head tells of the members: who has landed, and whose attempts never will. */
  private void lookUp(List<CommitGroup.Member> members, Head head) {
    for (CommitGroup.Member member : open(members)) {
      CommitGroup.Key key = member.key();
      List<Entry> under = timeline.under(head.state(), key.txnId(), member.sinceTs());
      Optional<Entry> known = Entry.committed(under);
      if (known.isPresent()) {
        member.committed(known.get(), head);
        continue;
      }
      if (key.isBarred(under)) {
        member.attempts().settle(head);
        TxnException barred = Drafts.barred(log.identifier(), key.txnId(), Entry.abortedTs(under));
        member.failed(member.conflict() == null ? barred : member.conflict());
        continue;
      }
      if (member.refusal() != null && !lostARace(member, head)) {
        member.failedAsRefused();
      }
      member.lookedAt(head);
    }
  }

  /** Whether a refusal was for what the attempt stood on: some servers call that malformed. */
  private static boolean lostARace(CommitGroup.Member member, Head head) {
    return Refusal.isMalformed(member.refusal()) && head.isNewer(member.attempts().stoodOn());
  }

  /**
   * Ask the log what became of the attempts under a key, which learn from it.
   *
   * @return the entry where one has landed
   */
  public Optional<Entry> settle(CommitGroup.Key key) {
    Head head = log.load();
    Optional<Entry> known = find(head, key.txnId(), key.sinceTs());
    if (known.isEmpty()) {
      key.attempts().settle(head);
    }
    return known;
  }

  private static List<CommitGroup.Member> open(List<CommitGroup.Member> members) {
    return members.stream().filter(CommitGroup.Member::isOpen).toList();
  }

  /** Find a transaction by its id in a head, and in rows that have left the head since. */
  public Optional<Entry> find(Head head, String txnId, long sinceTs) {
    return Entry.committed(timeline.under(head.state(), txnId, sinceTs));
  }

  /** Ends the leader and those whose attempts are over; the others go on under the next one. */
  private void settle(CommitGroup.Member leader, List<CommitGroup.Member> members) {
    Head head = log.load();
    lookUp(members, head);
    for (CommitGroup.Member member : open(members)) {
      if (member != leader && !isOver(member)) {
        continue;
      }
      if (member.unsent() != null && !member.attempts().mayLand()) {
        member.failed(member.unsent()); // which is no outcome
        continue;
      }
      TxnException conflict =
          TxnException.conflict(
              log.identifier(),
              member.key().txnId(),
              Winner.NOBODY,
              head.upper(),
              "too many others were committing");
      boolean others =
          member.key().origin() == CommitGroup.Origin.CALLERS; // tries that may be on their way
      member.failed(
          others ? TxnException.commitStateUnknown(member.key().txnId(), conflict) : conflict);
    }
  }
}
