"""
Thirty faults in the product, each of which `make test` has to find.

They are the measure of a change of the tests: who makes tests faster, moves or joins them, runs
`python -m tests.mutants` and sees the same thirty found. The text that a mutant replaces stands
exactly once among the sources, in whatever file: a test holds that, so code may move, and whoever
rewrites such a place says here where its promise is kept now.

The simulation takes protections away of its own (`tests/simulation/mutations.py`): by name, in
memory, and to measure the simulation.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum


class Part(Enum):
    """Whose fault it is, and by what it is found."""

    SPARK = "spark"
    """Java, by JUnit."""
    ADAPTERS = "adapters"
    """The DB-API, SQLAlchemy's dialect and dbt's adapter, by pytest."""
    PYTHON = "python"
    """The Python core, by pytest."""


@dataclass(frozen=True, slots=True)
class Mutant:
    """
    One fault.

    Attributes:
        old: What stands in the sources, once.
        new: What stands there instead.
        breaks: The promise that it breaks.
        found_by: A test of `make test` that fails then: `Class#method` of JUnit, or
            `pattern::test` of pytest, where the pattern fits one file.
    """

    name: str
    part: Part
    old: str
    new: str
    breaks: str
    found_by: str


MUTANTS = (
    # ------------------------------------------------------------ Spark and the protocol in Java
    Mutant(
        "java-conditional-write",
        Part.SPARK,
        "if (!reads.hasConditionalWrite(change) || isSameRows(entry, change)) {",
        "if (true) {",
        "an upsert that found nothing to change conflicts with a write, at every level",
        "WhatClashesTest#aConditionalWriteOfNothingClashesAtEveryLevel",
    ),
    Mutant(
        "java-level-of-begin",
        Part.SPARK,
        "options = options.withIsolation(isolation);",
        "options = options.withIsolation(Isolation.SNAPSHOT);",
        "the isolation level of BEGIN stands above the session's option",
        "SessionOptionsTest#beginStandsAboveTheOption",
    ),
    Mutant(
        "java-id-in-the-archive",
        Part.SPARK,
        "if (Entry.committed(standing).isPresent() || state.tidiedUpto() <= sinceTs) {",
        "if (standing != null) {",
        "an id commits once, also when its entry has left the head",
        "TransactionTest#anIdCommitsOnceAlsoWhenItsEntryHasBeenTidied",
    ),
    Mutant(
        "java-unknown-outcome",
        Part.SPARK,
        "if (e instanceof CommitStateUnknownException) {",
        "if (e == null) {",
        "a statement whose outcome nobody knows answers 08007",
        "TxnSqlExceptionTest#anUnknownOutcomeIsNoLostRace",
    ),
    Mutant(
        "java-apply-after-forget",
        Part.SPARK,
        "if (mark.isEmpty() && !needsNone) {",
        "if (base == null) {",
        "nothing is applied to a table from which somebody took the mark",
        "ProtocolEdgesTest#markRemovedByAStranger",
    ),
    Mutant(
        "java-young-drop",
        Part.SPARK,
        "if (nowMs < possibleTs) {",
        "if (nowMs < droppedTs) {",
        "a dropped table is purged when no transaction may read it any more, not before",
        "PurgeTest#aYoungDropSaysFromWhenOn",
    ),
    Mutant(
        "java-prefix-of-a-text",
        Part.SPARK,
        'case "COMMIT", "END" -> workThenEnd() ? new TxnStatement.Commit() : null;',
        'case "COMMIT", "END" -> new TxnStatement.Commit();',
        "only a whole text is a statement of a transaction, never a prefix",
        "TxnStatementTest",
    ),
    Mutant(
        "java-time-of-begin",
        Part.SPARK,
        "if (node instanceof CurrentTimestampLike) {",
        "if (node == null) {",
        "CURRENT_TIMESTAMP in a transaction is the moment of BEGIN",
        "TimeOfTransactionTest",
    ),
    Mutant(
        "java-before-its-creation",
        Part.SPARK,
        "if (mark.created() > readTs) {",
        "if (mark.created() < 0) {",
        "who reads at a timestamp before a table's creation is told so",
        "RaceTest#aReaderOlderThanTheTableIsToldSo",
    ),
    Mutant(
        "java-lost-session",
        Part.SPARK,
        "if (owner == null) {\n      Background.UNDOING.soon(state::abandon);",
        "if (owner == null) {",
        "a transaction whose session nobody has any more is rolled back",
        "SessionTest#aLostSessionIsRolledBack",
    ),
    # ------------------------------------------------------------ DB-API, SQLAlchemy, dbt
    Mutant(
        "dbapi-nested-comment",
        Part.ADAPTERS,
        'depth += 1 if found[0] == "/*" else -1',
        "depth -= 1",
        "a question mark in a comment inside a comment is no marker",
        "tests/**/test_dbapi_literals.py::test_only_markers_are_replaced_and_set_apart",
    ),
    Mutant(
        "dbapi-negative-number",
        Part.ADAPTERS,
        'return f"({text})" if text.startswith("-") else text',
        "return text",
        "a negative number behind a minus makes no comment of the rest",
        "tests/**/test_dbapi_literals.py::test_a_value_becomes_its_literal",
    ),
    Mutant(
        "dbapi-lost-in-commit",
        Part.ADAPTERS,
        "elif self._may_have_ended:",
        "if not sql:",
        "a session that is lost in a statement that may commit leaves the outcome unknown",
        "tests/**/test_dbapi_connection.py::test_a_session_that_was_lost_in_a_commit",
    ),
    Mutant(
        "sqlalchemy-disconnect",
        Part.ADAPTERS,
        "return isinstance(e, dbapi.ConnectionLost)"
        " or isinstance(e.__cause__, dbapi.ConnectionLost)",
        "return isinstance(e, dbapi.ConnectionLost)",
        "a connection whose session was lost in COMMIT leaves the pool",
        "tests/**/test_dialect.py::test_a_session_that_is_lost_in_commit_is_a_disconnect",
    ),
    Mutant(
        "sqlalchemy-ids-of-a-rollback",
        Part.ADAPTERS,
        "self._tokens |= self._found.pop(id(dbapi_connection), {})",
        "self._found.pop(id(dbapi_connection), {})",
        "a CREATE TABLE that was rolled back gives nobody the right to count from 1",
        "tests/**/test_dialect.py::test_a_transaction_that_rolled_back_has_created_nothing",
    ),
    Mutant(
        "sqlalchemy-isolation-level",
        Part.ADAPTERS,
        "dbapi_connection.isolation_level = level",
        "dbapi_connection.isolation_level = None",
        "a connection's transactions have the isolation level that it was given",
        "integration_tests/**/test_sqlalchemy.py::test_isolation_levels_and_savepoints",
    ),
    Mutant(
        "sqlalchemy-run-transaction",
        Part.ADAPTERS,
        "if not isinstance(error.orig, dbapi.TransactionConflict):",
        "if error.orig is not None:",
        "run_transaction runs again what has lost a race",
        "integration_tests/**/test_sqlalchemy.py::test_of_two_racing_sessions_one_is_run_again",
    ),
    Mutant(
        "dbt-lost-race",
        Part.ADAPTERS,
        "return isinstance(self.cause, dbapi.TransactionConflict) and not self.in_part",
        "return False",
        "a model whose COMMIT answers 40001 is run again",
        "integration_tests/**/dbt/test_transactions.py::TestModels::test_a_lost_race_is_run_again",
    ),
    Mutant(
        "dbt-hooks-outside",
        Part.ADAPTERS,
        "{% call statement(auto_begin=inside_transaction) %}",
        "{% call statement(auto_begin=True) %}",
        "hooks with `transaction: false` are no part of the model's transaction",
        "integration_tests/**/dbt/test_transactions.py::TestHooks::test_hooks_inside_and_outside",
    ),
    Mutant(
        "dbt-unknown-outcome",
        Part.ADAPTERS,
        "status = self._settled(connection, unknown)",
        "raise CommitError(unknown) from unknown",
        "the outcome of a COMMIT that answers 08007 is asked for by its id",
        "integration_tests/**/dbt/test_transactions.py::TestModels::test_an_unknown_outcome_is_asked_for",
    ),
    # ------------------------------------------------------------ the Python core
    Mutant(
        "python-read-and-appended",
        Part.PYTHON,
        "if not filters or _is_same_rows(entry, change):",
        "if filters or _is_same_rows(entry, change):",
        "rows made of what was read conflict with a write of it, at every level",
        "tests/**/test_isolation.py::test_what_is_read_and_appended_to",
    ),
    Mutant(
        "python-listed",
        Part.PYTHON,
        "if comes_or_goes and self.reads.was_listed(change.table[:-1]):",
        "if not change.table:",
        "a namespace that was listed and has other tables now is a conflict",
        "tests/**/test_isolation.py::test_a_namespace_that_was_listed",
    ),
    Mutant(
        "python-id-in-the-archive",
        Part.PYTHON,
        "if committed(standing) or state.tidied_upto <= since_ts:",
        "if committed(standing) or since_ts >= 0:",
        "an abort bars the tries before it, also when it has left the head",
        "tests/txns/**/test_tries.py::test_an_earlier_try_is_refused_when_the_abort_has_left_the_head",
    ),
    Mutant(
        "python-noted-attempt",
        Part.PYTHON,
        "member.attempts.trying(head)",
        "pass",
        "what became of an attempt without an answer stays unknown (08007) while it may land",
        "tests/**/test_handle.py::test_an_outcome_that_stays_unknown",
    ),
    Mutant(
        "python-other-commit-table",
        Part.PYTHON,
        "if newer.log_id == mark.log_id and self._has_shown(metadata, mark, newer):",
        "if self._has_shown(metadata, mark, newer):",
        "nothing is applied to a table that another commit table of the name has marked",
        "tests/**/test_strangers.py::test_a_table_of_another_commit_table_of_the_name_is_left_alone",
    ),
    Mutant(
        "python-overlay-of-altered",
        Part.PYTHON,
        "before = requirements.rewound(view, unmet, here.updates)",
        "before = view",
        "readers of a table that a stranger altered stay on what was logged",
        "tests/**/test_altered.py::test_readers_of_a_table_whose_partitions_were_altered",
    ),
    Mutant(
        "python-needed-entry",
        Part.PYTHON,
        "if shown and not lasts and not _is_needed(entry, known):",
        "if shown and not lasts:",
        "an entry that tells a table's new name stays in the head while an older one needs it",
        "tests/**/test_renamed_late.py::test_a_new_name_stays_known_while_an_older_entry_needs_it",
    ),
    Mutant(
        "python-purge-of-held",
        Part.PYTHON,
        "held = [one for one, _at, ends in tagged(metadata) if ends is None or ends > now_ms]",
        "held = [one for one, _at, ends in tagged(metadata) if ends == 0]",
        "a hold keeps a dropped table from its purge",
        "tests/**/test_purge.py::test_a_hold_keeps_a_dropped_table",
    ),
    Mutant(
        "python-register-after-forget",
        Part.PYTHON,
        "forgotten = state.forgotten_ts(change.uuid) > mark_ts",
        "forgotten = state.forgotten_ts(change.uuid) < 0",
        "a table that was forgotten after its mark is not registered by that mark",
        "tests/**/test_first_touch.py::test_a_table_that_is_forgotten_between_its_mark_and_its_entry",
    ),
    Mutant(
        "python-files-of-a-rollback",
        Part.PYTHON,
        "for files in {id(f): f for f in self._all_files()}.values():\n"
        "            files.delete_created()",
        "pass",
        "a rollback leaves no file behind",
        "tests/**/test_transaction.py::test_an_exception_rolls_back",
    ),
)
