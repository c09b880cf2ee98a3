"""
Tests of Iceberg's Spark suites that fail over ours, each with the rule behind it.

Imports: nothing of the project. Used by: spark_suites.
"""

from __future__ import annotations

# By a test's name, or by its suite's name, a dot, and its own.
EXCLUSIONS: dict[str, str] = {}
