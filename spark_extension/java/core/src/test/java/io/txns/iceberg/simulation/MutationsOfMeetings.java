package io.txns.iceberg.simulation;

import static io.txns.iceberg.simulation.Mutation.answer;
import static io.txns.iceberg.simulation.Mutation.call;
import static io.txns.iceberg.simulation.Mutation.method;

import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.log.Reservation;
import io.txns.iceberg.meta.FileChanges;
import io.txns.iceberg.simulation.Mutation.Original;
import io.txns.iceberg.simulation.Mutation.Target;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.function.UnaryOperator;

/** Protections of two transactions that meet in one table, file by file, taken away. */
final class MutationsOfMeetings {
  private static final String BEGUN = "Transaction explicit(BeginOptions, String)";

  static final List<Mutation> ALL =
      List.of(
          Mutation.of(
              "removed_files_passed_over",
              "what is taken away, or marked, must stand, whoever has rewritten it",
              touched(MutationsOfMeetings::marksAlone)),
          Mutation.of(
              "delete_marks_passed_over",
              "nobody has marked rows of what is taken away or marked",
              touched(MutationsOfMeetings::filesAlone)),
          Mutation.of(
              "added_files_unread",
              "what was read is held against files that came since",
              met(
                  all ->
                      new FileChanges(
                          List.of(), all.removed(), all.addedDeletes(), all.removedDeletes()))),
          Mutation.of(
              "removed_files_unread",
              "what was read is held against files that have left since",
              met(
                  all ->
                      new FileChanges(
                          all.added(), Map.of(), all.addedDeletes(), all.removedDeletes()))),
          Mutation.of(
              "delete_marks_unread",
              "what was read is held against files that mark rows",
              met(all -> new FileChanges(all.added(), all.removed(), List.of(), List.of()))),
          Mutation.of(
              "deletes_by_value_made_again",
              "what takes rows away by value is not made again over what others have added",
              method("stage.Restager$Unfit", "boolean isOneOperation(FileChanges)", answer(true))),
          Mutation.of(
              "tables_go_by_files",
              "who wants to clash with all that is done to a table does",
              call(
                  "catalog.Beginning",
                  BEGUN,
                  "TxnConfig: TxnConfig.Conflicts conflicts()",
                  answer(TxnConfig.Conflicts.FILE))),
          Mutation.of(
              "waits_without_end",
              "nobody waits for longer than others have reserved (11.4)",
              method(
                  "commit.Turns",
                  "List standing(Collection)",
                  (standing, a) -> {
                    standing.of(a); // which it has seen
                    return oldestFirst((Collection<?>) a[1]);
                  })));

  private MutationsOfMeetings() {}

  private static Target touched(Mutation.Body body) {
    return method(
        "stage.Restager$Unfit", "Set touched(FileChanges, FileChanges, TableMetadata)", body);
  }

  private static Target met(UnaryOperator<FileChanges> without) {
    return method(
        "commit.FileConflicts$Look",
        "FileConflicts.Met firstMet(FileChanges)",
        (firstMet, a) -> firstMet.of(a[0], without.apply((FileChanges) a[1])));
  }

  /** As if no data file had come or left. */
  private static Object marksAlone(Original touched, Object[] a) throws Throwable {
    FileChanges theirs = (FileChanges) a[1];
    return touched.of(
        a[0],
        new FileChanges(List.of(), Map.of(), theirs.addedDeletes(), theirs.removedDeletes()),
        a[2]);
  }

  /** As if no delete file had come or left. */
  private static Object filesAlone(Original touched, Object[] a) throws Throwable {
    FileChanges theirs = (FileChanges) a[1];
    return touched.of(
        a[0], new FileChanges(theirs.added(), theirs.removed(), List.of(), List.of()), a[2]);
  }

  private static List<Reservation> oldestFirst(Collection<?> reserved) {
    List<Reservation> all = new ArrayList<>();
    reserved.forEach(each -> all.add((Reservation) each));
    all.sort(Comparator.comparingLong(Reservation::ticket).thenComparing(Reservation::txnId));
    return all;
  }
}
