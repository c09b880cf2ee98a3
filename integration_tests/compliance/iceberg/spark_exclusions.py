"""
Tests of Iceberg's Spark suites that fail over ours, each with the rule behind it.

Imports: nothing of the project. Used by: spark_suites.
"""

from __future__ import annotations

_PLAN = "looks for a part of a statement's plan, which is one command here (docs/architecture.md)"
_CACHED = (
    "asks a table object from before the statement: on plain Iceberg the catalog's cache makes it"
    " the writer's own, here nothing is cached (docs/spark.md)"
)

# By a test's name, or by its suite's name, a dot, and its own.
EXCLUSIONS: dict[str, str] = {
    "testCoalesceDelete": _PLAN,
    "testSkewDelete": _PLAN,
    "testDeleteWithoutScanningTable": _PLAN,
    "TestCopyOnWriteDelete.testDeleteWithVectorizedReads": _PLAN,
    "testDeleteFileThenMetadataDelete": _CACHED,
}
