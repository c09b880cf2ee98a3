"""A relation with three names: catalog (dbt's `database`), schema, identifier."""

from __future__ import annotations

from dataclasses import dataclass, field

from dbt.adapters.base.relation import BaseRelation, Policy
from dbt.adapters.spark.relation import SparkRelation


@dataclass
class TxnsIncludePolicy(Policy):
    """All three parts are rendered: models of one project may live in several catalogs."""

    database: bool = True
    schema: bool = True
    identifier: bool = True


@dataclass
class TxnsQuotePolicy(Policy):
    """Every part is quoted, so that any name works; Spark ignores case all the same."""

    database: bool = True
    schema: bool = True
    identifier: bool = True


@dataclass(frozen=True, eq=False, repr=False)
class TxnsRelation(SparkRelation):
    """
    A table or view of a catalog.

    Every table of a transactional catalog is an Iceberg table, so `is_iceberg` is true.
    """

    include_policy: Policy = field(default_factory=TxnsIncludePolicy)
    quote_policy: Policy = field(default_factory=TxnsQuotePolicy)
    is_iceberg: bool | None = True

    def __post_init__(self) -> None:
        """Accept a catalog: dbt-spark's class refuses a database."""

    def render(self) -> str:
        """Give the name in backticks, with as many parts as the include policy says."""
        return BaseRelation.render(self)
