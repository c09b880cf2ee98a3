"""The page of a run: what was tried, and what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from txns._verify.history import Outcome
from txns._verify.plan import PYTHON, SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._verify.plan import Plan
    from txns._verify.run import Verdict

_SHOWN = 50
_PROMISE = (
    "Every transaction had to see what stood at its `read_ts`, and, at its level, the same where it"
    " committed; who began after somebody was told had to see that; and the tables had to hold in"
    " the end what the committed transactions leave one after the other."
)
_WORDS = {PYTHON: "Python", SPARK: "Spark"}


def line(verdict: Verdict) -> str:
    """Give a run in one line."""
    counts = " ".join(f"{each.value}={verdict.count(each)}" for each in Outcome)
    return f"{counts} kills={verdict.kills} anomalies={len(verdict.anomalies)}"


def write(plan: Plan, verdict: Verdict) -> Path:
    """Write the page of a run into its folder."""
    anomalies = [f"- {each.name}, `{each.txn_id}`: {each.words}" for each in verdict.anomalies]
    what = f"{len(plan.clients)} sessions at {plan.level}, conflicts by {plan.options['conflicts']}"
    text = [
        "# Isolation, verified",
        "",
        f"{what}, seed {plan.seed}: {line(verdict)}.",
        "",
        _PROMISE,
        "",
        *_statements(plan, verdict),
        "",
        "## Anomalies",
        "",
        *(anomalies[:_SHOWN] or ["None."]),
        *_counted("Beside the sessions", verdict.beside.deeds),
        *_listed("What makes it doubtful", verdict.doubts),
        *_counted("Errors that were no conflicts", verdict.failures),
    ]
    path = Path(plan.folder, "page.md")
    path.write_text("\n".join(text) + "\n")
    return path


def _statements(plan: Plan, verdict: Verdict) -> Iterator[str]:
    """Give tables of how the transactions of each client ended, and of their statements."""
    clients = sorted(set(plan.clients))
    outcomes = Counter((plan.clients[deed.session], deed.outcome) for deed in verdict.deeds)
    verbs = Counter(
        (plan.clients[deed.session], step.table, step.verb)
        for deed in verdict.deeds
        for step in deed.steps
    )
    words = " | ".join(_WORDS[client] for client in clients)
    rule = " | ".join("---" for _ in clients)
    yield f"| outcome | {words} |"
    yield f"| --- | {rule} |"
    for outcome in Outcome:
        counts = " | ".join(str(outcomes[client, outcome]) for client in clients)
        yield f"| {outcome.value} | {counts} |"
    yield ""
    yield f"| table | statement | {words} |"
    yield f"| --- | --- | {rule} |"
    for table, verb in sorted({each[1:] for each in verbs}):
        counts = " | ".join(str(verbs[client, table, verb]) for client in clients)
        yield f"| {table} | {verb} | {counts} |"


def _listed(heading: str, found: list[str]) -> Iterator[str]:
    if found:
        yield from ("", f"## {heading}", "", *(f"- {words}" for words in found))


def _counted(heading: str, found: Counter[str]) -> Iterator[str]:
    if found:
        yield from ("", f"## {heading}", "")
        for words, count in found.most_common():
            yield f"- {count} times: {words}"
