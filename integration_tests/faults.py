"""
Faults: real ones, met by real processes that write all through them.

Docs/operations.md, Faults. Each process appends a row to all tables in every transaction, under an
id of its own, so that whatever it is told can be held against what is there.
"""

from __future__ import annotations

import importlib.resources
import itertools
import json
import os
import signal
import subprocess
import sys
import threading
import time
import urllib.request
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, Self

from pyiceberg.catalog.sql import SqlCatalog

import txns
from integration_tests.fault_program import SCHEMA
from integration_tests.rest_server import free_port
from txns._admin.health import health
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

ROOT = Path(__file__).resolve().parent.parent
START_S = 120
SETTLE_S = 60
_POLL_S = 0.02


class Said(NamedTuple):
    """What a writer has said: what became of a try, its id, and when (`time.monotonic`)."""

    word: str
    txn_id: str
    at_s: float
    words: str


class Writer:
    """
    A process that writes until it is told to stop; killed, if it lives, when the block ends.

    Attributes:
        said: What it has said so far.
        tables: Those that each of its transactions appends to.
    """

    def __init__(
        self,
        command: list[str],
        log: Path,
        tables: list[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.said: list[Said] = []
        self.tables = tables
        self._log = log
        with log.open("ab") as errors:
            self._process = subprocess.Popen(
                command,
                cwd=ROOT,
                env={**os.environ, **(environment or {})},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            word, txn_id, at_s, *words = line.split(maxsplit=3)
            self.said.append(Said(word, txn_id, float(at_s), " ".join(words).strip()))

    def wait_for(self, word: str, after_s: float, *, within_s: float = SETTLE_S) -> float:
        """Wait until it has said a word after a time; give when that was."""
        deadline_s = time.monotonic() + within_s
        while True:
            for said in list(self.said):
                if said.word == word and said.at_s > after_s:
                    return said.at_s
            dead = self._process.poll() is not None
            assert not dead, f"a writer has ended: {self._log.read_text()[-4000:]}"
            assert time.monotonic() < deadline_s, f"not {word}: {self.said[-3:]}"
            time.sleep(_POLL_S)

    def stop(self) -> None:
        """Let it come to the end of its transaction, and end."""
        assert self._process.stdin is not None
        self._process.stdin.write("stop\n")
        self._process.stdin.close()

    def join(self) -> None:
        """Wait until it has ended by itself."""
        code = self._process.wait(SETTLE_S)
        self._reader.join()
        assert code == 0, f"a writer has failed: {self._log.read_text()[-4000:]}"


@dataclass
class Lake:
    """
    A lake with tables that writers append to.

    Attributes:
        folder: Of logs, and of its files where `warehouse` says nothing else.
        uri: Of the catalog's database, for pyiceberg.
        warehouse: Where its files are.
        tables: Those that a transaction writes where nothing else is said.
        locations: Where some of them are, if not in the warehouse.
        options: Further properties of the catalog.
    """

    folder: Path
    uri: str
    warehouse: str = ""
    tables: list[str] = field(default_factory=lambda: ["shop.a", "shop.b"])
    locations: dict[str, str] = field(default_factory=dict)
    options: dict[str, str] = field(default_factory=dict)

    def make(self) -> Self:
        """Make its tables and put them under care."""
        catalog = self.catalog()
        catalog.create_namespace("shop")
        handle = txns.open(catalog)
        for name in self.tables:
            catalog.create_table(name, SCHEMA, self.locations.get(name))
            handle.register(name)
        return self

    @property
    def properties(self) -> dict[str, str]:
        """The catalog's properties."""
        warehouse = self.warehouse or f"file://{self.folder}/files"
        return {"type": "sql", "uri": self.uri, "warehouse": warehouse, **self.options}

    def catalog(self, **options: str) -> SqlCatalog:
        """Give a client of its own."""
        return SqlCatalog("lake", **{**self.properties, **options})

    def writer(
        self,
        name: str,
        *,
        what: str = "write",
        tables: list[str] | None = None,
        environment: Mapping[str, str] | None = None,
        **options: str,
    ) -> Writer:
        """Start a Python writer, or what else its program does; no other one has its name."""
        tables = tables or self.tables
        command = [sys.executable, "-m", "integration_tests.fault_program", what, name]
        command += [json.dumps(tables), json.dumps({**self.properties, **options})]
        return Writer(command, self.folder / f"{name}.log", tables, environment)

    def spark_writer(self, name: str, uri: str, *, apply: str = "inline") -> Writer:
        """Start a Spark driver that writes; its JDBC URI leads to the same database."""
        program = [sys.executable, "-m", "integration_tests.driver_program", "append"]
        tables = " ".join(self.tables)
        options = json.dumps({"uri": uri, "txns.apply": apply, "spark.txns.test.tables": tables})
        command = [*program, str(self.folder / "files"), name, options]
        return Writer(command, self.folder / f"{name}.log", self.tables)

    def ids(self, name: str) -> Counter[str]:
        """Give the ids that a table has rows of, as a fresh session reads it."""
        table = txns.open(self.catalog()).snapshot().load_table(name)
        return Counter(table.scan().to_arrow()["id"].to_pylist())


@dataclass(frozen=True)
class Course:
    """
    How a fault went.

    Attributes:
        committed: How many transactions were, from its beginning until all is well again.
        refused: How many a Conflict has answered for.
        unknown: How many answers were unknown outcomes.
        failed: What else tries were told, by the error's class.
        longest_s: The longest time without an answer to a try, in s.
        next_commit_s: From the end of the fault to the first commit of each writer, in s.
        consistent_s: From there until all is applied, every table is well, and all rows of
            before are read, in s.
    """

    committed: int
    refused: int
    unknown: int
    failed: Counter[str]
    longest_s: float
    next_commit_s: list[float]
    consistent_s: float

    def __str__(self) -> str:
        return (
            f"{self.committed} committed, {self.refused} refused, {self.unknown} unknown,"
            f" {dict(self.failed)}; an answer after {self.longest_s:.1f} s at most; next commits"
            f" after {', '.join(f'{each:.2f}' for each in self.next_commit_s)} s, consistent after"
            f" {self.consistent_s:.2f} s"
        )


def carry_out(
    lake: Lake,
    writers: list[Writer],
    strike: Callable[[], object],
    heal: Callable[[], object],
    *,
    lasts_s: float,
) -> Course:
    """Let a fault happen to a lake that is written, and be over; nobody runs anything."""
    for writer in writers:
        writer.wait_for("committed", 0, within_s=START_S)
    began_s = time.monotonic()
    strike()
    time.sleep(lasts_s)
    heal()
    ended_s = time.monotonic()
    consistent_s = _consistent_after(lake, writers, ended_s)
    next_commit_s = [writer.wait_for("committed", ended_s) - ended_s for writer in writers]
    said = [each for writer in writers for each in list(writer.said) if each.at_s > began_s]
    words = Counter(each.word for each in said)
    pauses = [
        after.at_s - before.at_s
        for writer in writers
        for before, after in itertools.pairwise(list(writer.said))
        if after.at_s > began_s
    ]
    return Course(
        words["committed"],
        words["refused"],
        words["unknown"],
        Counter(each.words.split()[0] for each in said if each.word == "failed"),
        max(pauses),
        next_commit_s,
        consistent_s,
    )


def end(lake: Lake, writers: list[Writer]) -> None:
    """
    Stop the writers, and hold what they were told against what is there.

    Everything that was acknowledged is there once, nothing else is, and all invariants hold.
    """
    for writer in writers:
        writer.stop()
    for writer in writers:
        writer.join()
    for name in lake.tables:
        told = Counter(
            each.txn_id
            for each in _said([one for one in writers if name in one.tables], "committed")
        )
        there = lake.ids(name)
        assert told == there, f"{name}: too much {there - told}, missing {told - there}"
    assert [] == check_all(txns.open(lake.catalog()).parts).violations


def check_order(lake: Lake, writers: list[Writer]) -> None:
    """Who began when another one had been told that it has committed, comes after it in the log."""
    rows = txns.open(lake.catalog()).transactions()
    commit_ts = {row["txn_id"]: row["commit_ts"] for row in rows}
    ended_s = {each.txn_id: each.at_s for each in _said(writers, "committed")}
    ends = sorted((at_s, commit_ts[txn_id]) for txn_id, at_s in ended_s.items())
    newest_ts = 0
    begins = sorted(
        (before.at_s, commit_ts[each.txn_id])
        for writer in writers
        for before, each in itertools.pairwise(list(_said([writer], "committed")))
    )
    for begun_s, ts in begins:
        while ends and ends[0][0] <= begun_s:
            newest_ts = max(newest_ts, ends.pop(0)[1])
        assert newest_ts < ts


def _said(writers: list[Writer], word: str) -> Iterator[Said]:
    return (each for writer in writers for each in list(writer.said) if each.word == word)


def _consistent_after(lake: Lake, writers: list[Writer], ended_s: float) -> float:
    """Wait until a lake is as it was before a fault; give how long that took, in s."""
    upper, last = None, ""
    before = {
        name: {
            each.txn_id
            for each in _said([one for one in writers if name in one.tables], "committed")
            if each.at_s <= ended_s
        }
        for name in lake.tables
    }
    while True:
        assert time.monotonic() < ended_s + SETTLE_S, f"it is not consistent again: {last}"
        try:
            parts = txns.open(lake.catalog()).parts
            found = health(parts)
            upper = upper or found.head.upper  # what was committed in the fault lies below
            states = {each.state for each in found.tables}
            old = [each for each in found.outstanding if each.entry.commit_ts <= upper]
            # A log that has run ahead says so until the clocks have come after.
            wrong = [each for each in found.warnings if "some clock is fast" not in each]
            well = states <= {"ok", "unapplied", "dropped"} and not wrong and not old
            if well and all(ids <= set(lake.ids(name)) for name, ids in before.items()):
                return time.monotonic() - ended_s
            last = f"states={states} warnings={wrong} outstanding={len(old)}"
        except Exception as error:  # noqa: BLE001 -- the fault may be felt for a while
            last = f"{type(error).__name__}: {error}"
        time.sleep(_POLL_S)


@contextmanager
def small_filesystem(folder: Path, mebibytes: int) -> Iterator[Path]:
    """
    Mount a file system of a few MiB; needs the right to mount.

    Raises:
        PermissionError: It may not mount.
    """
    folder.mkdir(parents=True)
    options = f"size={mebibytes}m"
    command = ["mount", "-t", "tmpfs", "-o", options, "tmpfs", str(folder)]
    mounted = subprocess.run(command, capture_output=True, text=True, check=False)
    if mounted.returncode:
        raise PermissionError(mounted.stderr.strip())
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(folder: Path) -> Path:
    """Write a file until there is no room left; give it, to be removed again."""
    filler = folder / "filler"
    with filler.open("wb", buffering=0) as stream:
        for size in (1 << 16, 1 << 12, 1):
            try:
                while True:
                    stream.write(b"x" * size)
            except OSError:
                pass
    return filler


class ObjectStore:
    """
    A server of S3's protocol (moto), in a process that can be stopped for a while.

    Attributes:
        options: Of a catalog whose files are there; it gives calls up after a second.
    """

    bucket = "lake"

    def __init__(self, folder: Path) -> None:
        port = free_port()
        endpoint = f"http://127.0.0.1:{port}"
        command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(port)]
        with (folder / "store.log").open("wb") as log:
            self._process = subprocess.Popen(command, stdout=log, stderr=log)
        self.options = {
            "s3.endpoint": endpoint,
            "s3.access-key-id": "key",
            "s3.secret-access-key": "secret",
            "s3.region": "us-east-1",
            "s3.connect-timeout": "1",
            "s3.request-timeout": "1",
        }
        self._make_bucket(endpoint)

    def _make_bucket(self, endpoint: str) -> None:
        put = urllib.request.Request(f"{endpoint}/{self.bucket}", method="PUT")
        deadline_s = time.monotonic() + START_S
        while True:
            try:
                urllib.request.urlopen(put, timeout=5).close()
            except OSError:
                assert self._process.poll() is None, "the object store did not start"
                assert time.monotonic() < deadline_s, "the object store does not answer"
                time.sleep(_POLL_S)
            else:
                return

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()

    def hang(self) -> None:
        """Take requests, and answer none."""
        self._process.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Answer again, those that wait included."""
        self._process.send_signal(signal.SIGCONT)


def wrong_clock(by: str) -> dict[str, str]:
    """
    Give the environment of a process whose clock is off, as `+1h`: libfaketime.

    What the machine measures itself stays right: the times of files, which are the storage's, and
    how long something takes.
    """
    package = importlib.resources.files("libfaketime")
    library = package / "vendor" / "libfaketime" / "src" / "libfaketime.so.1"
    return {
        "LD_PRELOAD": str(library),
        "FAKETIME": by,
        "NO_FAKE_STAT": "1",
        "DONT_FAKE_MONOTONIC": "1",
    }
