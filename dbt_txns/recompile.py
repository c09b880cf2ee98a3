"""
Compile a model once more, inside the transaction that is to commit it.

A model may read while it is compiled (`run_query`), and the values are in its text from then on.
dbt compiles before it runs the materialization, so these reads begin the model's transaction; where
that one has ended without the model, because it lost a race or because a hook was to run outside
of it, the text is of a past that the next transaction does not validate.
"""

from __future__ import annotations

from typing import Any

from dbt.compilation import inject_ctes_into_sql
from dbt.contracts.graph.nodes import InjectedCTE


def compile_again(context: dict[str, Any]) -> None:
    """
    Render a node's text anew, and put it where its macros look for it.

    Ephemeral models below it stay as they are: dbt compiles each of them once for a whole run.

    Args:
        context: The node's Jinja context, as dbt has made it for the materialization.
    """
    node = context["model"]
    text = context["render"](node["raw_code"])
    ctes = [InjectedCTE(id=cte["id"], sql=cte["sql"]) for cte in node.get("extra_ctes", ())]
    text = inject_ctes_into_sql(text, ctes)
    context["compiled_code"] = context["sql"] = text
    node["compiled_code"] = node["compiled_sql"] = text
