package io.txns.iceberg.simulation;

import static io.txns.iceberg.simulation.Mutation.answer;
import static io.txns.iceberg.simulation.Mutation.call;
import static io.txns.iceberg.simulation.Mutation.method;

import io.txns.iceberg.log.Head;
import java.lang.reflect.Field;
import java.util.List;
import java.util.Map;

/** Protections of transactions that are appended in one swap, taken away. */
final class MutationsOfGroups {
  private static final String DRAFTS = "commit.Drafts";
  private static final String DRAFT = "Entry draft(CommitGroup.Member)";

  /** What the drafts of a thread stand on; others draft meanwhile. */
  private static final ThreadLocal<Head> BEFORE = new ThreadLocal<>();

  static final List<Mutation> ALL =
      List.of(
          Mutation.of(
              "group_members_unaware",
              "members of a group are validated against each other, not the head alone (I9)",
              method(
                  DRAFTS,
                  "Drafts of(List, Head, TableIdentifier, TxnClock, Turns)",
                  (of, a) -> {
                    BEFORE.set((Head) a[1]);
                    return of.of(a);
                  }),
              call(
                  DRAFTS,
                  DRAFT,
                  "CommitGroup.Attempt: Entry at(Head, long)",
                  (at, a) -> at.of(a[0], BEFORE.get(), a[2])),
              Mutations.DRAFTS_UNCHECKED,
              Mutations.LOG_UNCHECKED),
          Mutation.of(
              "id_twice_in_a_group",
              "of one id one entry is appended, whoever tries under it (I8)",
              call(DRAFTS, DRAFT, "Map: boolean containsKey(Object)", answer(false)),
              method(DRAFTS, "List all()", (all, a) -> eachTheirOwn(a[0])),
              Mutations.DRAFTS_UNCHECKED,
              Mutations.LOG_UNCHECKED));

  private MutationsOfGroups() {}

  /** The entries of all members, which the drafts keep by id. */
  private static List<?> eachTheirOwn(Object drafts) throws ReflectiveOperationException {
    Field entries = drafts.getClass().getDeclaredField("entries");
    entries.setAccessible(true);
    return List.copyOf(((Map<?, ?>) entries.get(drafts)).values());
  }
}
