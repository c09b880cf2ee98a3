"""
Drills: what a lake shows, and gives back, after each thing that can be lost or set back.

Docs/operations.md, Recovery. A drill makes a lake over any SQL catalog, does the damage, says what
the first statement is told, recovers, and says what is gone; nothing is taken on trust.
"""

from __future__ import annotations

import os
import shutil
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlparse

import pyarrow as pa
from pyiceberg.catalog.sql import SqlCatalog

import txns
from tests.txns.backups import LOG, pointers, restore
from tests.txns.lake import SteppingClock
from txns._admin import orphans
from txns._admin.invariants import check_all
from txns._admin.recover import Recovered, recover
from txns._admin.void import void
from txns._config import Config
from txns._log import entry as _entry
from txns._services import Parts

if TYPE_CHECKING:
    from collections.abc import Callable

SCHEMA = pa.schema([pa.field("id", pa.int64())])

_MINUTE_MS = 60_000
_DAY_MS = 24 * 60 * _MINUTE_MS


@dataclass
class Lake:
    """
    A lake whose transactions each append their number to all tables.

    Attributes:
        folder: Of the files.
        uri: Of the catalog's database.
        tables: Their names.
        last: The number of the last transaction.
        backups: The catalog as it was before each transaction, by its number.
        clock: Of all its users.
    """

    folder: Path
    uri: str
    tables: list[str]
    last: int = 0
    backups: dict[int, dict[str, str]] = field(default_factory=dict)
    clock: SteppingClock = field(default_factory=SteppingClock)

    @staticmethod
    def make(folder: Path, uri: str, *, tables: int, transactions: int) -> Lake:
        """Make a lake with a past."""
        lake = Lake(folder, uri, [f"shop.t{number}" for number in range(tables)])
        catalog = lake.catalog()
        catalog.create_namespace("shop")
        handle = lake.open()
        for name in lake.tables:
            catalog.create_table(name, SCHEMA)
            handle.register(name)
        for _ in range(transactions):
            lake.append(handle)
        return lake

    def catalog(self) -> SqlCatalog:
        """Give a client of its own."""
        return SqlCatalog("lake", uri=self.uri, warehouse=f"file://{self.folder}/files")

    def open(self) -> txns.Handle:
        """Give a handle of its own."""
        return txns.open(self.catalog(), clock=self.clock)

    def pass_time(self, ms: int) -> None:
        """Let time pass, for all clocks and for the log's files."""
        self.clock.ahead_ms += ms
        for path in _log_folder(self).parent.rglob("*"):
            at = path.stat().st_mtime - ms / 1000
            os.utime(path, (at, at))

    def append(self, handle: txns.Handle) -> None:
        """Append the next number to all tables, in one transaction."""
        self.last += 1
        self.backups[self.last] = pointers(handle.parts.catalog)
        with handle.begin() as txn:
            for name in self.tables:
                txn.load_table(name).append(pa.table({"id": [self.last]}, schema=SCHEMA))

    def parts(self) -> Parts:
        """Give the protocol's parts, which have seen nothing of the log."""
        return Parts.of(self.catalog(), Config.of(), self.clock)

    def numbers(self, name: str) -> list[int]:
        """Give what a fresh session reads from a table, ascending."""
        table = self.open().snapshot().load_table(name)
        return sorted(table.scan().to_arrow()["id"].to_pylist())


@dataclass(frozen=True)
class Drill:
    """
    One thing that is lost, or set back.

    Attributes:
        name: For people.
        strike: Does it.
        cure: What is run then; gives what it says.
        lost: How many of the last transactions are gone after it, from all tables.
        told: Words of what the first statement is told; empty for nothing.
    """

    name: str
    strike: Callable[[Lake], None]
    cure: Callable[[Lake], Recovered | None]
    lost: int
    told: str


@dataclass(frozen=True)
class Drilled:
    """
    How a drill went.

    Attributes:
        told: What the first statement was told; empty for nothing.
        reported: What the recovery said that is gone, or not known.
        gone: How many transactions are.
        cure_s: How long the cure took, in seconds.
        check_s: How long `txns check` took then, in seconds.
        violations: What it found.
    """

    told: str
    reported: list[str]
    gone: int
    cure_s: float
    check_s: float
    violations: list[str]


def carry_out(drill: Drill, lake: Lake) -> Drilled:
    """Do the damage, look, cure, and look again; then the lake is written once more."""
    drill.strike(lake)
    told = _first_statement(lake)
    started = time.perf_counter()
    said = drill.cure(lake)
    cured = time.perf_counter()
    violations = [f"{each.where}: {each.words}" for each in check_all(lake.parts()).violations]
    checked = time.perf_counter()
    found = said.found if said else None
    reported = [each.txn_id for each in (*found.gone, *found.unknown)] if found else []
    seen = {tuple(lake.numbers(name)) for name in lake.tables}
    assert len(seen) == 1, f"tables differ: {seen}"
    gone = lake.last - len(next(iter(seen)))
    lake.append(lake.open())
    for name in lake.tables:
        assert lake.last == lake.numbers(name)[-1]
    return Drilled(told, reported, gone, cured - started, checked - cured, violations)


def _first_statement(lake: Lake) -> str:
    """Read all tables as a new session does; give what the first error says."""
    try:
        for name in lake.tables:
            lake.numbers(name)
    except Exception as error:  # noqa: BLE001 -- whatever it is, it is what a user sees
        return f"{type(error).__name__}: {error}"
    return ""


def _recover(lake: Lake) -> Recovered:
    return recover(lake.catalog(), Config.of(), lake.clock)


def _log_folder(lake: Lake) -> Path:
    return Path(urlparse(pointers(lake.catalog())[LOG]).path).parent


def _lose_log(lake: Lake) -> None:
    lake.catalog().drop_table(LOG)


def _lose_log_and_files(lake: Lake) -> None:
    folder = _log_folder(lake).parent
    _lose_log(lake)
    shutil.rmtree(folder)


def _lose_newest_file(lake: Lake) -> None:
    Path(urlparse(pointers(lake.catalog())[LOG]).path).unlink()


def _set_log_back(lake: Lake) -> None:
    restore(lake.catalog(), lake.backups[lake.last], [LOG])


def _set_log_back_without_files(lake: Lake) -> None:
    _set_log_back(lake)
    kept = Path(urlparse(pointers(lake.catalog())[LOG]).path)
    number = int(kept.name.split("-")[0])
    for path in _log_folder(lake).glob("*.metadata.json"):
        if int(path.name.split("-")[0]) > number:
            path.unlink()


def _set_log_back_by_a_tidy(lake: Lake) -> None:
    before = pointers(lake.catalog())
    assert lake.open().tidy()
    restore(lake.catalog(), before, [LOG])


def _set_table_back(lake: Lake) -> None:
    before = lake.backups[lake.last - 2]
    assert lake.open().tidy()
    restore(lake.catalog(), before, [lake.tables[0]])


def _register_newest(lake: Lake) -> None:
    """Register the newest metadata of the table again, as the table's quarantine says."""
    catalog, name = lake.catalog(), lake.tables[0]
    folder = Path(urlparse(pointers(catalog)[name]).path).parent
    newest = max(folder.glob("*.metadata.json"), key=lambda path: path.stat().st_mtime_ns)
    catalog.drop_table(name)
    catalog.register_table(name, f"file://{newest}")


def _set_catalog_back(lake: Lake) -> None:
    restore(lake.catalog(), lake.backups[lake.last - 4])


def _begin_minute(lake: Lake) -> None:
    lake.pass_time(_MINUTE_MS - lake.clock.now_ms() % _MINUTE_MS)


def _set_catalog_back_by_minutes(lake: Lake) -> None:
    """Set it back by 22 minutes, in which somebody has committed, tidied and cleaned up."""
    handle = lake.open()
    for _ in range(24):  # one in three minutes, for more than an hour
        lake.pass_time(3 * _MINUTE_MS)
        lake.append(handle)
    assert handle.tidy()
    orphans.remove(handle.parts)
    lake.pass_time(_MINUTE_MS)
    restore(lake.catalog(), lake.backups[lake.last - 6])


def _set_catalog_back_by_days(lake: Lake) -> None:
    """Set it back by three days, to a version that was not the last one of its minute."""
    handle = lake.open()
    handle.tidy()
    for _ in range(2):
        _begin_minute(lake)
        for _ in range(3):
            lake.append(handle)
    backup = lake.backups[lake.last]
    lake.pass_time(3 * _DAY_MS)
    for _ in range(24):
        lake.append(handle)
    orphans.remove(handle.parts)
    assert not Path(urlparse(backup[LOG]).path).exists()
    restore(lake.catalog(), backup)


def _break_record(lake: Lake) -> None:
    """Append a record of a kind that nobody has announced."""
    catalog = lake.catalog()
    parts = Parts.of(catalog, Config.of(), lake.clock)
    head = parts.log.load()
    bad = _entry.Entry(
        _entry.Kind.ADVANCE,
        "bad",
        upper=head.upper + 1,
        tidied_upto=head.state.tidied_upto,
        commit_ts=head.upper + 1,
        prev_ts=head.upper,
        read_ts=head.upper,
    )
    parts.log.append(head, [bad])
    path = Path(urlparse(pointers(catalog)[LOG]).path)
    text = path.read_text("utf-8")
    path.write_text(text.replace('"txns.kind":"advance"', '"txns.kind":"merge"'), "utf-8")


def _void(lake: Lake) -> None:
    table = lake.catalog().load_table(LOG)
    void(lake.parts(), table.metadata.current_snapshot_id or 0)


DRILLS = (
    Drill("the log is lost", _lose_log, _recover, 0, "txns recover"),
    Drill("the log is lost, and its files", _lose_log_and_files, _recover, 0, "txns recover"),
    Drill("the log's newest file is gone", _lose_newest_file, _recover, 0, "FileNotFoundError"),
    Drill("the log is set back by an entry", _set_log_back, _recover, 0, "txns recover"),
    Drill(
        "the log is set back by an entry, and its newer files are gone",
        _set_log_back_without_files,
        _recover,
        0,
        "txns recover",
    ),
    Drill("the log is set back by a tidy", _set_log_back_by_a_tidy, _recover, 0, ""),
    Drill("a table is set back", _set_table_back, _register_newest, 0, "set back"),
    Drill("the catalog is set back by five transactions", _set_catalog_back, _recover, 5, ""),
    Drill("the catalog is set back by 22 minutes", _set_catalog_back_by_minutes, _recover, 7, ""),
    Drill(
        "the catalog is set back by 3 days",
        _set_catalog_back_by_days,
        _recover,
        24,
        "FileNotFoundError",
    ),
    Drill("a record cannot be read", _break_record, _void, 0, "txns recover --void"),
)
