"""Tests of Iceberg's Spark suites that fail over ours, each with the rule behind it."""

from __future__ import annotations

from typing import NamedTuple


class Exclusion(NamedTuple):
    """A failure that is explained: why it is right, and a part of what it says."""

    reason: str
    failure: str


_PLAN = "looks for a part of a statement's plan, which is one command here (docs/architecture.md)"
_IN_PLAN = Exclusion(_PLAN, "LocalTableScan")
_ANALYZED = Exclusion(_PLAN, "TxnDmlCommand")
_SCANS_IN_PLAN = Exclusion(_PLAN, "to be greater than 0 but was 0")
_CACHED = Exclusion(
    "asks a table object from before the statement: on plain Iceberg the catalog's cache makes it"
    " the writer's own, here nothing is cached (docs/spark.md)",
    "Data file should have been removed",
)
_NO_ROWS = Exclusion(
    "counts the snapshot of an UPDATE that matches nothing; here it leaves none (docs/spark.md)",
    "Should have 2 snapshots",
)

# By a test's name, or by its suite's name, a dot, and its own.
EXCLUSIONS = {
    "testCoalesceDelete": _IN_PLAN,
    "testSkewDelete": _IN_PLAN,
    "testDeleteWithoutScanningTable": _ANALYZED,
    "testCoalesceUpdate": _IN_PLAN,
    "testSkewUpdate": _IN_PLAN,
    "testSkewMerge": _IN_PLAN,
    "testMergeConditionSplitIntoTargetPredicateAndJoinCondition": _IN_PLAN,
    "TestCopyOnWriteDelete.testDeleteWithVectorizedReads": _SCANS_IN_PLAN,
    "TestCopyOnWriteUpdate.testUpdateWithVectorizedReads": _SCANS_IN_PLAN,
    "TestCopyOnWriteMerge.testMergeWithVectorizedReads": _SCANS_IN_PLAN,
    "testDeleteFileThenMetadataDelete": _CACHED,
    "testUpdateEmptyTable": _NO_ROWS,
    "testUpdateNonExistingRecords": _NO_ROWS,
}
