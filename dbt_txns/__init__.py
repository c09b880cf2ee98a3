"""
dbt adapter `type: txns`: models that commit or do not, on top of dbt-spark.

docs/dbt.md is the guide. dbt finds the module by its name, and here the `Plugin`.
"""

from pathlib import Path

from dbt.adapters.base import AdapterPlugin
from dbt.adapters.txns.connections import TxnsConnectionManager
from dbt.adapters.txns.credentials import TxnsCredentials
from dbt.adapters.txns.impl import TxnsAdapter
from dbt.adapters.txns.relation import TxnsRelation
from dbt.include import txns as macros

__all__ = [
    "Plugin",
    "TxnsAdapter",
    "TxnsConnectionManager",
    "TxnsCredentials",
    "TxnsRelation",
]

Plugin = AdapterPlugin(
    # The protocol's methods are dbt's own adapter's in all but a few annotations.
    adapter=TxnsAdapter,  # type: ignore[arg-type]
    credentials=TxnsCredentials,
    include_path=str(Path(macros.__file__).parent),
    dependencies=["spark"],
    project_name="dbt_txns",
)
