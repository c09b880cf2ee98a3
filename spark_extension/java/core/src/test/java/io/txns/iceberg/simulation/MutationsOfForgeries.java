package io.txns.iceberg.simulation;

import static io.txns.iceberg.simulation.Mutation.NOTHING;
import static io.txns.iceberg.simulation.Mutation.answer;
import static io.txns.iceberg.simulation.Mutation.method;

import java.util.List;
import java.util.Optional;

/** Protections against who may write the commit table alone, taken away (docs/security.md). */
final class MutationsOfForgeries {
  static final List<Mutation> ALL =
      List.of(
          Mutation.of(
              "forbidden_updates_carried_out",
              "a record has no updates but those that the protocol writes (7)",
              method(
                  "log.Permitted",
                  "Optional forbidden(LoggedChange, UpdateTableRequest, TableIdentifier)",
                  answer(Optional.empty()))),
          Mutation.of(
              "never_under_care_forgotten",
              "a table that a record names was under care before (8.1)",
              method("table.OurSnapshots", "boolean haveBeenIn(TableMetadata)", answer(true))),
          Mutation.of(
              "places_unchecked",
              "a record puts no table where its catalog would not (7)",
              method(
                  "table.AllowedPlaces",
                  "Optional forbidden(TableIdentifier, TableMetadata, List)",
                  answer(Optional.empty()))),
          Mutation.of(
              "misplaced_lists_read",
              "a table reads no manifests of others (7)",
              method("meta.Places", "List misplacedFiles(TableMetadata, List)", answer(List.of()))),
          Mutation.of(
              "missing_lists_applied",
              "a table gets no list that is not there (8.1)",
              method(
                  "commit.ManifestLists",
                  "void refuseMissing(TableIdentifier, FileIO, LoggedChange, UpdateTableRequest,"
                      + " String[])",
                  NOTHING)),
          Mutation.of(
              "log_steers_libraries",
              "what the commit table's own properties name is not loaded, nor removed (3.1)",
              method("log.Permitted", "void refuseSteered(Map)", NOTHING)));

  private MutationsOfForgeries() {}
}
