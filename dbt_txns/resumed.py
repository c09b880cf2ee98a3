"""
Batches of a microbatch model that `dbt retry` runs again: what the run before has built stays.

dbt gives only those that failed, and the first of them is what a first batch was in that run: with
`--full-refresh` it would replace the table, and with it the batches that have succeeded.
"""

from __future__ import annotations

from typing import Any


def is_resumed(node: object) -> bool:
    """Say whether a node is a batch of a model of which others were built by the run before."""
    return getattr(node, "previous_batch_results", None) is not None


def keep_what_is_built(context: dict[str, Any]) -> None:
    """
    Have a node add to its table, as dbt has each batch but a first one.

    Args:
        context: The node's Jinja context, as dbt has made it for the materialization.
    """
    context["is_incremental"] = lambda: True
    context["should_full_refresh"] = lambda: False
