package io.txns.iceberg.simulation;

import static io.txns.iceberg.simulation.Mutation.answer;
import static io.txns.iceberg.simulation.Mutation.method;

import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.LockedRows;
import java.util.List;
import java.util.Optional;

/** Protections of tables that move together with the log (docs/spec.md 11.3), taken away. */
final class MutationsOfBirths {
  private static final String BIRTHS = "commit.Births";

  static final List<Mutation> ALL =
      List.of(
          Mutation.of(
              "born_over_what_is_outstanding",
              "no table moves with the log while older entries are to be applied to it (I5)",
              method(BIRTHS, "boolean isOutstanding(Head, String, long)", answer(false))),
          Mutation.of(
              "born_over_strangers",
              "no table moves with the log over what strangers have made of it",
              method(
                  BIRTHS,
                  "Optional strangerOn(TableMetadata, LoggedChange)",
                  answer(Optional.empty()))),
          Mutation.of(
              "born_in_word_only",
              "what an entry calls born has moved with it",
              method(
                  "commit.Validation",
                  "boolean isBorn(CommitRequest, Head, LoggedChange, ChangeBuilder.Built, Ahead)",
                  answer(true))),
          Mutation.of(
              "ahead_taken_for_another_time",
              "what was written ahead is for its commit_ts alone",
              method(
                  BIRTHS,
                  "Object key(LoggedChange)",
                  (key, a) -> ((LoggedChange) a[0]).entry().txnId())),
          Mutation.of(
              "written_removed_after_a_maybe",
              "the metadata of a swap whose answer was lost stays (I8)",
              method("meta.LockedRows", "void commit()", MutationsOfBirths::removedAfterwards)));

  private MutationsOfBirths() {}

  private static Object removedAfterwards(Mutation.Original commit, Object[] a) throws Throwable {
    try {
      return commit.of(a);
    } catch (RuntimeException e) {
      ((LockedRows) a[0]).refused();
      throw e;
    }
  }
}
