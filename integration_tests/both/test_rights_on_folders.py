"""
People without rights on one table's folder, through Python and Spark (docs/security.md).

The catalog lets everybody in: what they may do is what the operating system's permissions let
them. The folders of some tables belong to another user; the processes that are looked at run
without the capabilities by which root passes permissions by.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest

import txns
from integration_tests.drivers import Driver
from integration_tests.fault_program import SCHEMA
from integration_tests.faults import Lake
from txns._admin.invariants import check_all

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

CAPABILITIES = "-dac_override,-dac_read_search,-fowner"
UNDER = ("setpriv", "--bounding-set", CAPABILITIES)
ANOTHER = 65534
UNREADABLE, READ_ONLY = 0o700, 0o755
LANGUAGES = ["python", "spark"]


class Person(Driver):
    """Somebody whom permissions bind; says what became of what is asked, and in which words."""

    under = UNDER

    def ask(self, *what: str) -> tuple[str, Any]:
        """Have something done; give `done` and what came of it, or an error and its words."""
        self.say(json.dumps(what))
        outcome, found = json.loads(self.wait_for_line())
        return outcome, found


class PythonPerson(Person):
    """It writes by the handle, and looks by the command line."""

    program = "rights_program"

    def count(self, *tables: str) -> tuple[str, Any]:
        """Count the rows of tables at one moment."""
        return self.ask("count", *tables)

    def append(self, *tables: str) -> tuple[str, Any]:
        """Append a row to tables in one transaction; give whether it is applied."""
        return self.ask("append", *tables)

    def mark(self, table: str) -> tuple[str, Any]:
        """Set a property."""
        return self.ask("mark", table)

    def drop(self, table: str) -> tuple[str, Any]:
        """Drop a table."""
        return self.ask("drop", table)

    def left(self) -> int:
        """Apply; give how many tables are left."""
        outcome, found = self.ask("apply")
        assert outcome == "done", found
        return len(found)

    def tidy(self) -> tuple[str, Any]:
        """Tidy."""
        return self.ask("tidy")

    def purge(self, table: str) -> tuple[str, Any]:
        """Purge a table."""
        return self.ask("purge", table)


class SparkPerson(Person):
    """It writes SQL."""

    def sql(self, statement: str) -> tuple[str, Any]:
        """Run a statement; give its rows."""
        outcome, found = self.ask("anybody", statement)
        if outcome == "rows":
            return "done", found
        words = [line for line in found.splitlines() if not line.lstrip().startswith("at ")]
        return "error", "\n".join(words)

    def count(self, *tables: str) -> tuple[str, Any]:
        """Count the rows of tables at one moment."""
        counts = ", ".join(f"(SELECT count(*) FROM lake.{table})" for table in tables)
        outcome, found = self.sql(f"SELECT {counts}")
        return outcome, found[0] if outcome == "done" else found

    def append(self, *tables: str) -> tuple[str, Any]:
        """Append a row to tables in one transaction; give whether it is applied."""
        statements = [f"INSERT INTO lake.{table} VALUES ('spark')" for table in tables]
        for statement in ("BEGIN", *statements, "COMMIT"):
            outcome, found = self.sql(statement)
            if outcome == "error":
                assert self.sql("ROLLBACK")[1][0][0] in {"rolled back", "none"}
                return outcome, found
        state, *_, applied, _in_transaction, _apply, _reserved = found[0]
        assert state == "committed"
        return outcome, applied

    def mark(self, table: str) -> tuple[str, Any]:
        """Set a property."""
        return self.sql(f"ALTER TABLE lake.{table} SET TBLPROPERTIES ('marked' = 'yes')")

    def drop(self, table: str) -> tuple[str, Any]:
        """Drop a table."""
        return self.sql(f"DROP TABLE lake.{table}")

    def left(self) -> int:
        """Apply; give how many tables are left."""
        outcome, found = self.sql("CALL lake.system.apply()")
        assert outcome == "done", found
        return found[0][0]

    def tidy(self) -> tuple[str, Any]:
        """Tidy."""
        return self.sql("CALL lake.system.tidy()")

    def purge(self, table: str) -> tuple[str, Any]:
        """Purge a table."""
        return self.sql(f"CALL lake.system.purge('{table}')")


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    """A lake whose catalog is a file that everybody may write."""
    if os.geteuid() != 0:
        pytest.skip("only root can give a folder to another user")
    probe = [*UNDER, sys.executable, "-c", ""]
    if not shutil.which(UNDER[0]) or subprocess.run(probe, check=False).returncode:
        pytest.skip("setpriv is not there, or may not take capabilities from a process")
    folder = tmp_path_factory.mktemp("folders")
    made = Lake(folder, f"sqlite:///{folder}/lake.db?timeout=30").make()
    for table in made.tables:
        txns.open(made.catalog()).catalog().load_table(table).append(_row())
    return made


@pytest.fixture(scope="module")
def people(lake: Lake) -> Iterator[dict[str, Person]]:
    """Somebody of each language."""
    files, uri = lake.folder / "files", f"jdbc:sqlite:file:{lake.folder}/lake.db?busy_timeout=30000"
    with (
        SparkPerson("roles", files, "-", lake.folder / "spark.log", uri=uri) as spark,
        PythonPerson("-", files, "-", lake.folder / "python.log", **lake.properties) as python,
    ):
        yield {"python": python, "spark": spark}


@pytest.fixture(params=LANGUAGES)
def person(request: pytest.FixtureRequest, people: dict[str, Person]) -> Any:
    """Somebody whom permissions bind."""
    return people[request.param]


@contextmanager
def _of_another(folder: Path, mode: int) -> Iterator[None]:
    """Give a folder, and those in it, to another user."""
    folders = [folder, *(path for path in folder.rglob("*") if path.is_dir())]
    try:
        for each in folders:
            os.chown(each, ANOTHER, ANOTHER)
            each.chmod(mode)
        yield
    finally:
        for each in folders:
            os.chown(each, 0, 0)
            each.chmod(0o755)


def _folder(lake: Lake, name: str = "shop/b") -> Path:
    return lake.folder / "files" / name


def _files(lake: Lake) -> set[Path]:
    return {each for each in _folder(lake, "").rglob("*") if each.suffix != ".crc"}


def _upper(lake: Lake) -> int:
    return txns.open(lake.catalog()).parts.log.load().upper


def _ours(lake: Lake, *tables: str) -> list[int]:
    snapshot = txns.open(lake.catalog()).snapshot()
    return [snapshot.load_table(table).scan().to_arrow().num_rows for table in tables]


def _row() -> pa.Table:
    return pa.table({"id": ["owner"]}, schema=SCHEMA)


def _check_denied(answer: tuple[str, Any], folder: Path) -> None:
    """The words name permission and the path; nothing is called lost, and no cure for that."""
    outcome, words = answer
    assert outcome != "done", words
    assert "permission denied" in words.lower()
    assert str(folder) in words
    for word in ("recover", "repair", "corrupt", "XX001", "55000"):
        assert word not in words


@pytest.mark.sampled
def test_a_reader_who_may_not_look_into_one_folder(lake, people, person):
    """It reads all other tables, is told why it does not read that one, and so is `txns status`."""
    before = _files(lake)
    [rows] = _ours(lake, "shop.a")
    with _of_another(_folder(lake), UNREADABLE):
        assert ("done", [rows]) == person.count("shop.a")
        _check_denied(person.count("shop.b"), _folder(lake))
        _check_denied(person.count("shop.a", "shop.b"), _folder(lake))
        assert ("done", [rows]) == person.count("shop.a")
        _, [code, status, _] = people["python"].ask("txns", "status")
        assert code == 0
        assert "shop.b: unreadable: " in status
        assert "Permission denied" in status
        _, [_, tables, _] = people["python"].ask("txns", "status", "--json")
        states = {each["name"]: each["state"] for each in json.loads(tables)["tables"]}
        assert {"shop.a": "ok", "shop.b": "unreadable"} == states
        _, [code, found, _] = people["python"].ask("txns", "check", "--json")
        where = [(each["invariant"], each["where"]) for each in json.loads(found)["violations"]]
        assert (1, [("unreadable", "shop.b")]) == (code, where)
    assert before == _files(lake)


def test_a_reader_who_may_not_look_into_the_log(lake, people, person):
    """It is told so, and not that the log is lost, which somebody would try to recover."""
    folder = _folder(lake, "txns/commits")
    with _of_another(folder, UNREADABLE):
        # A session that has seen this version of the log does not look into its folder again.
        txns.open(lake.catalog()).catalog().load_table("shop.a").append(_row())
        _check_denied(person.count("shop.a"), folder)
        _check_denied(person.append("shop.a"), folder)
        before = _files(lake)
        _, [code, _, words] = people["python"].ask("txns", "recover")
        assert code == 2
        assert "Permission denied" in words
        assert before == _files(lake)
    assert [] == check_all(txns.open(lake.catalog()).parts).violations


@pytest.mark.sampled
def test_a_writer_who_may_not_write_into_one_folder(lake, person):
    """
    It writes all other tables; what writes that one is refused before the swap.

    1. It reads all, appends to a.
    2. It appends to a and b, sets a property of b, drops b: nothing is committed, and no file is
       left.
    """
    rows_a, rows_b = _ours(lake, "shop.a", "shop.b")
    with _of_another(_folder(lake), READ_ONLY):
        assert ("done", [rows_a, rows_b]) == person.count("shop.a", "shop.b")
        assert ("done", True) == person.append("shop.a")
        files, upper = _files(lake), _upper(lake)
        _check_denied(person.append("shop.b"), _folder(lake))
        _check_denied(person.append("shop.a", "shop.b"), _folder(lake))
        _check_denied(person.mark("shop.b"), _folder(lake))
        _check_denied(person.drop("shop.b"), _folder(lake))
        assert (upper, files) == (_upper(lake), _files(lake))
        assert ("done", True) == person.append("shop.a")
    assert [rows_a + 2, rows_b] == _ours(lake, "shop.a", "shop.b")
    assert [] == check_all(txns.open(lake.catalog()).parts).violations


def test_a_writer_who_may_not_write_into_the_log(lake, person):
    """It is refused at once, before or in its COMMIT, which has not happened then."""
    folder = _folder(lake, "txns/commits")
    rows = _ours(lake, "shop.a")
    with _of_another(folder, READ_ONLY):
        assert ("done", rows) == person.count("shop.a")
        began = time.monotonic()
        _check_denied(person.append("shop.a"), folder)
        assert time.monotonic() - began < 15  # and not the 30 s of an outcome that is not known
    assert rows == _ours(lake, "shop.a")
    assert ("done", True) == person.append("shop.a")
    assert [] == check_all(txns.open(lake.catalog()).parts).violations


@pytest.mark.parametrize("mode", [UNREADABLE, READ_ONLY], ids=["unreadable", "read-only"])
def test_what_one_may_not_apply_is_left_to_others(lake, person, mode):
    """
    Entries that somebody has left do not keep a writer back who may not apply them.

    1. The owner commits to a and b, and creates c; nobody applies.
    2. The folders of b and c are another user's. The writer commits to a, applies and tidies: b
       and c are left, and a goes on.
    3. The owner applies, and nothing is lost.
    """
    handle = txns.open(lake.catalog())
    made = f"shop.{person.program[:6]}{mode:o}"
    handle.change_settings(apply="next")
    with handle.begin() as txn:
        for table in ("shop.a", "shop.b"):
            txn.load_table(table).append(_row())
        txn.create_table(made, SCHEMA).append(_row())
    handle.change_settings(apply="inline")
    rows_a, rows_b = _ours(lake, "shop.a", "shop.b")
    with (
        _of_another(_folder(lake), mode),
        _of_another(_folder(lake, made.replace(".", "/")), mode),
    ):
        assert ("done", True) == person.append("shop.a")
        assert 2 == person.left()
        outcome, words = person.tidy()
        assert outcome == "done", words
        assert ("done", True) == person.append("shop.a")
        assert ("done", [rows_a + 2]) == person.count("shop.a")
        if mode == READ_ONLY:
            assert ("done", [rows_b, 1]) == person.count("shop.b", made)
    owner = txns.open(lake.catalog())
    assert [rows_a + 2, rows_b, 1] == _ours(lake, "shop.a", "shop.b", made)
    assert [] == owner.apply_le()
    plain = lake.catalog()
    assert [rows_b, 1] == [
        plain.load_table(each).scan().to_arrow().num_rows for each in ("shop.b", made)
    ]
    assert [] == check_all(owner.parts).violations


def test_a_purge_spares_what_it_may_not_look_into(lake, person):
    """
    Another table may use files of one that is purged: who cannot read it deletes nothing.

    1. The place of `inner` lies below that of `outer`, and its folder is another user's.
    2. Somebody drops `outer`, and purges it: what cannot be read is not what is gone.
    3. `inner` has its rows.
    """
    outer, inner = (f"shop.{person.program[:6]}_{name}" for name in ("outer", "inner"))
    owner = txns.open(lake.catalog())
    place = f"file://{lake.folder}/files/{outer.replace('.', '/')}"
    for name, location in ((outer, place), (inner, f"{place}/data/inner")):
        lake.catalog().create_table(name, SCHEMA, location)
        owner.register(name)
        owner.catalog().load_table(name).append(_row())
    owner.change_settings(max_age_ms=1000)
    owner.catalog().drop_table(outer)
    time.sleep(1.1)
    before = _files(lake)
    with _of_another(_folder(lake, f"{outer.replace('.', '/')}/data/inner"), UNREADABLE):
        outcome, words = person.purge(outer)
        assert outcome != "done", words
        assert "with the right to read that one" in words
        assert before <= _files(lake)
    assert [1] == _ours(lake, inner)
    assert [] == check_all(txns.open(lake.catalog()).parts).violations
