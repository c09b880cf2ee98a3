"""The page of a run: what was tried, and what was seen."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

from txns._clock import SystemClock
from txns._log.entry import THIS_ENGINE
from txns._message import time_of
from txns._verify.history import Outcome
from txns._verify.plan import PYTHON, SPARK

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._verify.plan import Plan
    from txns._verify.replay import Anomaly
    from txns._verify.run import Verdict

_SHOWN = 50
_PROMISE = (
    "Every transaction had to see what stood at its `read_ts`, also one that was refused, rolled"
    " back, or got an error; one that committed had to see, at its level, the same where it did;"
    " who began after somebody was told had to see that; and the tables had to hold in the end what"
    " the committed transactions leave one after the other. Not known is what one saw that was"
    " killed before its COMMIT, and what a statement saw that got an error."
)
_WORDS = {PYTHON: "Python", SPARK: "Spark"}


def line(verdict: Verdict) -> str:
    """Give a run in one line."""
    counts = " ".join(f"{each.value}={verdict.count(each)}" for each in Outcome)
    return f"{counts} kills={verdict.kills} anomalies={len(verdict.anomalies)}"


def title(anomaly: Anomaly) -> str:
    """Give the name of an anomaly, and the transaction that shows it, where it is one."""
    return f"{anomaly.name}, `{anomaly.txn_id}`" if anomaly.txn_id else anomaly.name


def write(plan: Plan, verdict: Verdict) -> Path:
    """Write the page of a run into its folder."""
    anomalies = [f"- {title(each)}: {each.words}" for each in verdict.anomalies]
    more = [f"- and {len(anomalies) - _SHOWN} more"] if len(anomalies) > _SHOWN else []
    text = [
        "# Isolation, verified" if not (anomalies or verdict.doubts) else "# Isolation, in doubt",
        "",
        f"{_setting(plan, verdict)}: {line(verdict)}.",
        "",
        f"By {THIS_ENGINE}, until {time_of(SystemClock().now_ms())}.",
        "",
        _PROMISE,
        "",
        *_statements(plan, verdict),
        "",
        "## Anomalies",
        "",
        *(anomalies[:_SHOWN] or ["None."]),
        *more,
        *_counted("Beside the sessions", verdict.beside.deeds),
        *_listed("What makes it doubtful", verdict.doubts),
        *_counted("Errors that were no conflicts", verdict.failures),
    ]
    path = Path(plan.folder, "page.md")
    path.write_text("\n".join(text) + "\n")
    return path


def _setting(plan: Plan, verdict: Verdict) -> str:
    """Say what was run, and what by."""
    return (
        f"On the catalog `{plan.catalog}` with the log `{plan.commit_table}`, {plan.seconds} s of"
        f" {len(plan.clients)} sessions at {plan.level}, judged by {verdict.judged_by}, conflicts"
        f" by {plan.options['conflicts']}, seed {plan.seed}"
    )


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
