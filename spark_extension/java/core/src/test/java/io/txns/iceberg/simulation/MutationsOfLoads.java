package io.txns.iceberg.simulation;

import static io.txns.iceberg.simulation.Mutation.NOTHING;
import static io.txns.iceberg.simulation.Mutation.answer;
import static io.txns.iceberg.simulation.Mutation.call;
import static io.txns.iceberg.simulation.Mutation.method;

import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Swap;
import io.txns.iceberg.simulation.Mutation.Target;
import java.util.List;
import java.util.Set;

/** Protections from what catalogs answer, taken away: of replicas, refusals, clocks, old tables. */
final class MutationsOfLoads {
  private static final long TOLERANCE_MS = 59_000;
  private static final String LOOK = "CompleteTables.Look look(TableIdentifier, Head, long)";

  private static final Target ANY_HEAD =
      method("log.CommitLog", "boolean isOlder(TableMetadata, Head)", answer(false));

  static final List<Mutation> ALL =
      List.of(
          Mutation.of(
              "head_from_a_cache",
              "the log is read past every cache",
              call(
                  "log.CommitLog",
                  "Head loadIfExists()",
                  "CommitLog: TableOperations refreshed(TableOperations)",
                  (refreshed, a) -> a[1] == null ? refreshed.of(a) : a[1])),
          Mutation.of(
              "settled_by_a_stale_head",
              "an attempt is settled by a newer head alone, which a replica's is not (I8)",
              method(
                  "log.Head",
                  "boolean isPast(Head)",
                  (isPast, a) -> mainId((Head) a[0]) != mainId((Head) a[1])),
              ANY_HEAD),
          Mutation.of(
              "refusal_believed",
              "a refused swap may have been carried out (I8)",
              method(
                  "log.CommitLog",
                  "Swap swap(Head, CommitLog.Next)",
                  (swap, a) -> believed((Swap) swap.of(a)))),
          Mutation.of(
              "log_created_in_the_loop",
              "who has seen the commit table makes no other one (3.2)",
              method(
                  "log.CommitLog",
                  "Head loadIfEver()",
                  (loadIfEver, a) -> ((CommitLog) a[0]).loadIfExists()),
              method("log.CommitLog", "Head load()", (load, a) -> made((CommitLog) a[0])),
              ANY_HEAD),
          Mutation.of(
              "applied_not_held_against_archive",
              "a table that lacks what has left the head is loaded again, or refused (11.2)",
              call(
                  "table.CompleteTables",
                  LOOK,
                  "CompleteTables: Long lostUpto(Table, Head)",
                  answer(null)),
              call(
                  "table.CompleteTables",
                  LOOK,
                  "CompleteTables: boolean isGone(TableIdentifier, String, Head, long)",
                  answer(false))),
          Mutation.of(
              "set_back_read_as_it_is",
              "a table that was set back is not read above what it has (9.1)",
              method("table.DataTables", "void checkComplete(Loaded, long)", NOTHING)),
          Mutation.of(
              "void_reads_committed",
              "what was read and made void since is not committed on (11.1)",
              method(
                  "commit.Validation",
                  "boolean standsOnWhatHasLeft(StagedTable, LogState)",
                  answer(false))),
          Mutation.of(
              "reads_by_name_only",
              "what was read is known by the table's uuid, whatever name entries give it (I9)",
              method(
                  "stage.ReadSet",
                  "Set knownAs(Change)",
                  (knownAs, a) -> Set.of(((Change) a[1]).table()))),
          Mutation.of(
              "timestamp_of_the_clock",
              "a snapshot's time follows the table's, not the clock (8.3)",
              method(
                  "meta.Timestamps",
                  "long acceptableMs(TableMetadata, long, long)",
                  (acceptable, a) -> Math.min((Long) a[1], (Long) a[2] + TOLERANCE_MS))),
          Mutation.of(
              "kept_tag_forgotten",
              "a tag keeps files that live again from an expiry (6.9)",
              method("stage.KeptTags", "void protect(StagedTable, long, String, long)", NOTHING)));

  private MutationsOfLoads() {}

  private static long mainId(Head head) {
    return head.metadata().currentSnapshot().snapshotId();
  }

  private static Head made(CommitLog log) {
    Head head = log.loadIfExists();
    return head.exists() ? head : log.loadOrCreate();
  }

  private static Swap believed(Swap swap) {
    if (swap.outcome() == Swap.Outcome.REFUSED) {
      throw swap.cause();
    }
    return swap;
  }
}
