"""
A column of a relation in any catalog.

Imports: dbt-spark. Used by: impl, __init__.
"""

from __future__ import annotations

from dataclasses import dataclass

from dbt.adapters.spark.column import SparkColumn


@dataclass
class TxnsColumn(SparkColumn):
    """dbt-spark's column; its types are Spark's own."""
