"""A run of sessions against a catalog: its tables made, what was done judged, and written down."""

from __future__ import annotations

import json
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from pyiceberg.exceptions import NoSuchTableError
from pyiceberg.transforms import IdentityTransform
from pyiceberg.utils.concurrent import ExecutorFactory

from txns._admin.listing import listed, plain
from txns._iceberg import places
from txns._identifier import parts_of
from txns._log.entry import Isolation, Kind
from txns._table.mark import mark_of
from txns._verify import disturbances, history
from txns._verify.disturbances import STRANGERS_FROM, Beside
from txns._verify.history import Outcome
from txns._verify.processes import Processes, workers_of
from txns._verify.replay import Anomaly, Replay
from txns._verify.statements import SCHEMA, arrow, rows_of
from txns._verify.workloads import EVENTS, HERE, MERGED_ON_READ, initial
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyiceberg.table import Table

    from txns._admin.listing import File
    from txns._handle import Handle
    from txns._identifier import Identifier
    from txns._verify.history import Deed
    from txns._verify.model import Rows, State
    from txns._verify.plan import Plan
    from txns._verify.processes import Ran

_WITH_ERRORS = (Outcome.FAILED, Outcome.UNKNOWN)
_ERRORS_MOST = 0.01
"""Of all transactions: a catalog may be away for a moment, but who got an error has seen less."""
_MERGE_ON_READ = {f"write.{what}.mode": "merge-on-read" for what in ("delete", "update", "merge")}


@dataclass
class Verdict:
    """
    What a run has shown.

    Attributes:
        deeds: Everything that was tried.
        anomalies: What the level forbids, and was seen.
        kills: How often a process was killed.
        judged_by: The level whose promises were held against them.
        failures: Errors that were no conflicts, by their words.
        wrong: What has not gone on as it should, in words.
        beside: What went on beside the sessions.
    """

    deeds: list[Deed]
    anomalies: list[Anomaly]
    kills: int = 0
    judged_by: str = ""
    failures: Counter[str] = field(default_factory=Counter)
    beside: Beside = field(default_factory=Beside)
    wrong: list[str] = field(default_factory=list)

    @property
    def doubts(self) -> list[str]:
        """Say why a run without an anomaly has shown less than it was to show."""
        writes = any(deed.wrote and deed.commit_ts is not None for deed in self.deeds)
        nothing = [] if writes else ["no transaction that writes has committed: nothing is shown"]
        return [*nothing, *self.wrong]

    def count(self, outcome: Outcome) -> int:
        """Say how many transactions ended so."""
        return sum(deed.outcome is outcome for deed in self.deeds)


def make_tables(handle: Handle, names: dict[str, str]) -> None:
    """Make the tables of a run, all but one partitioned by `day`, with what they hold at first."""
    lake = handle.catalog()
    for name, rows in initial().items():
        properties = _MERGE_ON_READ if name in MERGED_ON_READ else {}
        table = lake.create_table(names[name], SCHEMA, properties=properties)
        if name != HERE:
            with table.update_spec() as update:
                update.add_field("day", IdentityTransform())
        if rows:
            lake.load_table(names[name]).append(arrow(rows))


def drop_tables(handle: Handle, names: dict[str, str]) -> None:
    """
    Take the tables of a run from care, and away with their files: nobody reads them any more.

    One that cannot go keeps no other from it.

    Raises:
        Exception: Of the last one that cannot.
    """
    failure: Exception | None = None
    for name in names.values():
        try:
            _drop_table(handle, name)
        except NoSuchTableError:
            continue  # it was not made
        except Exception as error:  # noqa: BLE001 -- told when the others are gone
            failure = error
    if failure is not None:
        raise failure


def _drop_table(handle: Handle, name: str) -> None:
    table, catalog = parts_of(name), handle.parts.catalog
    handle.parts.applier.apply(handle.parts.log.load(), table)
    loaded = catalog.load_table(table)
    if mark_of(loaded.metadata) is not None:
        disturbances.adopt(handle, name)  # what a stranger that was stopped has left
        handle.forget(table)
    files = _own_files(loaded, table)
    if files is None or _has_files_elsewhere(loaded):
        catalog.purge_table(table)
    else:
        catalog.drop_table(table)

    def delete(file: File) -> None:
        with suppress(FileNotFoundError):
            loaded.io.delete(file.path)

    list(ExecutorFactory.get_or_create().map(delete, files or ()))


def _has_files_elsewhere(table: Table) -> bool:
    """Whether a property of the table, or of all of its catalog's, puts files out of its folder."""
    asked = filter(None, map(table.properties.get, places.PATHS))
    return not all(places.is_at_or_below(path, table.location()) for path in asked)


def _own_files(table: Table, name: Identifier) -> list[File] | None:
    """
    List the files of a table whose folder is its alone, with what killed sessions have staged.

    A purge by the catalog has none of that, and reads each manifest for every snapshot that names
    it: after an hour of transactions it would take longer than they did. None where others may
    have files in the folder, or storage does not list it.
    """
    folders = plain(table.location()).split("/")
    if not any(folder.startswith(name[0]) for folder in folders):
        return None
    try:
        return listed(table.io, table.location())
    except Unsupported:
        return None


def run(plan: Plan, *, kill: bool, disturb: bool) -> Ran:
    """Run all sessions until their time is over."""
    return Processes(plan, workers_of(plan, disturb=disturb)).run(kill=kill)


def judge(handle: Handle, plan: Plan, ran: Ran, level: str) -> Verdict:
    """
    Settle what became of every transaction, and replay what has committed.

    Args:
        handle: Over the catalog.
        plan: Of the run.
        ran: How it was carried out.
        level: What is judged by.
    """
    folder = Path(plan.folder)
    (deeds, errors), beside = history.read(folder), disturbances.read(folder)
    anomalies: list[Anomaly] = []
    if beside.tried:
        disturbances.adopt(handle, plan.tables[EVENTS])  # what one that was killed has left
    standing = _standing(handle, min((deed.read_ts for deed in deeds), default=0))
    for deed in deeds:
        if deed.outcome in _WITH_ERRORS and deed.why:
            errors[deed.session, history.shortened(deed.why)] += 1
        anomalies += _settled(deed, standing.get(deed.txn_id))
    found = state(handle, plan.tables)
    found[EVENTS], strangers = _parted(found[EVENTS])
    anomalies += Replay(initial(), deeds).anomalies(Isolation.parse(level), found)
    anomalies += [Anomaly("a stranger's rows", "", words) for words in beside.wrong(strangers)]
    wrong = [*short_of(plan, deeds, errors), *ran.wrong, *beside.idle(ran.disturbers)]
    failures = Counter[str]()
    for (_, why), times in errors.items():
        failures[why] += times
    return Verdict(deeds, anomalies, ran.kills, level, failures, beside, wrong)


def short_of(plan: Plan, deeds: list[Deed], errors: Counter[tuple[int, str]]) -> Iterator[str]:
    """
    Say of which client's sessions too many got an error, or none has committed.

    By client, since one may run ten times as many transactions as the other.
    """
    clients = sorted(set(plan.clients))
    for client in clients:
        its = [deed for deed in deeds if plan.clients[deed.session] == client]
        times = sum(n for (session, _), n in errors.items() if plan.clients[session] == client)
        if times > max(1, _ERRORS_MOST * len(its)):
            yield (
                f"{times} errors that were no conflicts beside {len(its)} transactions of {client},"
                " more than 1 %"
            )
        if len(clients) > 1 and not any(deed.outcome is Outcome.COMMITTED for deed in its):
            yield f"no transaction of {client} has committed"


def _parted(rows: Rows) -> tuple[Rows, Rows]:
    """Give the sessions' rows, and the stranger's."""
    ours = tuple(row for row in rows if row.id < STRANGERS_FROM)
    return ours, tuple(row for row in rows if row.id >= STRANGERS_FROM)


def _standing(handle: Handle, since_ts: int) -> dict[str, int]:
    """Give where each transaction stands in the log that was committed above a timestamp."""
    parts = handle.parts
    entries = parts.timeline.above(parts.log.load().state, since_ts)
    return {entry.txn_id: entry.commit_ts for entry in entries if entry.kind is Kind.COMMIT}


def _settled(deed: Deed, stands_at: int | None) -> list[Anomaly]:
    """Settle what became of a transaction; give what the log says against what was told."""
    if deed.outcome is Outcome.COMMITTED and not deed.wrote:
        return []
    told = deed.outcome, deed.commit_ts
    if deed.outcome is Outcome.UNKNOWN and (stands_at is None or deed.committing):
        deed.commit_ts = stands_at
        return []
    expected = deed.commit_ts if deed.outcome is Outcome.COMMITTED else None
    if stands_at == expected:
        return []
    words = f"it was told {told[0].value} at {told[1]}, and the log has it at {stands_at}"
    return [Anomaly("untrue answer", deed.txn_id, words)]


def state(handle: Handle, names: dict[str, str]) -> State:
    """Give what the tables hold now."""
    now = handle.snapshot()
    return {name: rows_of(now.load_table(known).scan()) for name, known in names.items()}


def write_elle(plan: Plan, verdict: Verdict) -> None:
    """Write the history of lists as Elle's checkers read it: line by line, or as one list."""
    lines = [json.dumps(line) for line in history.as_elle(verdict.deeds)]
    Path(plan.folder, "list-append.jsonl").write_text("".join(f"{line}\n" for line in lines))
    Path(plan.folder, "list-append.json").write_text("[" + ",\n".join(lines) + "]\n")
