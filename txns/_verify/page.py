"""The page of a run: what was tried, and what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from txns._verify.history import Outcome

if TYPE_CHECKING:
    from txns._verify.run import Verdict
    from txns._verify.session import Plan

_SHOWN = 50
_PROMISE = (
    "Every transaction had to see what stood at its `read_ts`, and, at its level, the same where it"
    " committed; who began after somebody was told had to see that; and the tables had to hold in"
    " the end what the committed transactions leave one after the other."
)


def line(verdict: Verdict) -> str:
    """Give a run in one line."""
    counts = " ".join(f"{each.value}={verdict.count(each)}" for each in Outcome)
    return f"{counts} kills={verdict.kills} anomalies={len(verdict.anomalies)}"


def write(plan: Plan, verdict: Verdict, sessions: int) -> Path:
    """Write the page of a run into its folder."""
    verbs = Counter(
        (step.table, step.verb) for deed in verdict.deeds for step in deed.steps if deed.steps
    )
    what = f"{sessions} sessions at {plan.level}, conflicts by {plan.options['conflicts']}"
    text = [
        "# Isolation, verified",
        "",
        f"{what}, seed {plan.seed}: {line(verdict)}.",
        "",
        _PROMISE,
        "",
        "| table | statement | how often |",
        "| --- | --- | --- |",
        *(f"| {table} | {verb} | {count} |" for (table, verb), count in sorted(verbs.items())),
        "",
        "## Anomalies",
        "",
        *([f"- {each.name}, `{each.txn_id}`: {each.words}" for each in verdict.anomalies[:_SHOWN]]),
        *([] if verdict.anomalies else ["None."]),
    ]
    if verdict.failures:
        text += ["", "## Errors that were no conflicts", ""]
        text += [f"- {count} times: {words}" for words, count in verdict.failures.most_common()]
    path = Path(plan.folder, "page.md")
    path.write_text("\n".join(text) + "\n")
    return path
