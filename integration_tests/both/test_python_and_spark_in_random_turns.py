"""Both languages do what chance says, one after the other, and agree with a model after each."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from integration_tests.checks import one, rows
from integration_tests.python_lake import rows as python_rows
from integration_tests.shared_lake import SCHEMA, batch, make_lake

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from pyspark.sql import SparkSession

    import txns
    from integration_tests.shared_lake import Lake

TABLES = ("db.t", "db.u")
IDS = 6
CHECK_EVERY = 8

Content = dict[int, int]
"""The rows of one table: v by id."""


class Model:
    """
    What the tables hold.

    Attributes:
        tables: The rows by table; a table that does not exist is not there.
        made_at: Upper before the newest creation of each table: below it nobody reads it.
        past: Uppers with what the tables held then.
    """

    def __init__(self, content: Content) -> None:
        self.tables: dict[str, Content] = {"db.t": content}
        self.made_at: dict[str, int] = {"db.t": 0}
        self.past: dict[int, dict[str, Content]] = {}


class Turns:
    """Draws a turn, lets one language do it, and does it in the model."""

    def __init__(self, lake: Lake, seed: int) -> None:
        self.draw = random.Random(seed)
        self.model = Model({1: 10, 2: 20})
        self.told: list[str] = []
        self._lake = lake
        self._handles = [lake.python(tidy_after=4, apply=apply) for apply in ("inline", "next")]
        self._sessions = [
            lake.spark(txns_apply=apply, **{"txns_tidy_after": "4"}) for apply in ("inline", "next")
        ]
        self._outside = lake.plain_spark()
        self.reader, self.session = lake.python(), lake.spark()

    def turn(self) -> None:
        """Do one thing, in a language and a mode of its own."""
        name = self.draw.choice(TABLES)
        there = name in self.model.tables
        deeds = ["append", "change", "change", "remove", "both", "rolled_back", "upkeep", "upkeep"]
        deed = self.draw.choice([*deeds * 3, "drop"]) if there else "create"
        by_python, mode = self.draw.random() < 0.5, self.draw.randrange(2)
        self.told.append(f"{deed} {name} by {'python' if by_python else 'spark'}, {mode}")
        if deed == "upkeep":
            self._keep_up(name)
            return
        target = self._python if by_python else self._spark
        target(deed, name, mode)

    def _python(self, deed: str, name: str, mode: int) -> None:
        handle, tables = self._handles[mode], self.model.tables
        key, value = self.draw.randrange(IDS), self.draw.randrange(1000)
        if deed == "create":
            self.model.made_at[name] = handle.upper
            handle.catalog().create_table(name, SCHEMA)
            tables[name] = {}
            return
        if deed == "drop":
            handle.catalog().drop_table(name)
            del tables[name]
            return
        txn = handle.begin()
        for each in self._targets(deed, name):
            table = txn.load_table(each)
            if deed == "remove":
                table.delete(f"id <= {key}")
            else:
                table.upsert(batch((key, value)), join_cols=["id"])
                if deed == "append":
                    table.append(batch((IDS + len(self.told), key)))
        if deed == "rolled_back":
            txn.rollback()
            return
        txn.commit()
        self._in_model(deed, name, key, value)

    def _spark(self, deed: str, name: str, mode: int) -> None:
        session, tables = self._sessions[mode], self.model.tables
        key, value = self.draw.randrange(IDS), self.draw.randrange(1000)
        if deed == "create":
            self.model.made_at[name] = self.reader.upper
            written = self.draw.choice(["merge-on-read", "copy-on-write"])
            modes = ", ".join(f"'write.{w}.mode' = '{written}'" for w in ("delete", "merge"))
            session.sql(
                f"CREATE TABLE lake.{name} (id BIGINT, v BIGINT) USING iceberg"
                f" TBLPROPERTIES ({modes})"
            )
            tables[name] = {}
            return
        if deed == "drop":
            session.sql(f"DROP TABLE lake.{name}")
            del tables[name]
            return
        session.sql("BEGIN")
        for each in self._targets(deed, name):
            if deed == "remove":
                session.sql(f"DELETE FROM lake.{each} WHERE id <= {key}")
                continue
            session.sql(
                f"MERGE INTO lake.{each} t USING (SELECT {key} AS id, {value} AS v) s"
                " ON t.id = s.id WHEN MATCHED THEN UPDATE SET v = s.v"
                " WHEN NOT MATCHED THEN INSERT *"
            )
            if deed == "append":
                session.sql(f"INSERT INTO lake.{each} VALUES ({IDS + len(self.told)}, {key})")
        session.sql("ROLLBACK" if deed == "rolled_back" else "COMMIT")
        if deed != "rolled_back":
            self._in_model(deed, name, key, value)

    def _targets(self, deed: str, name: str) -> list[str]:
        return sorted(self.model.tables) if deed == "both" else [name]

    def _in_model(self, deed: str, name: str, key: int, value: int) -> None:
        for each in self._targets(deed, name):
            content = self.model.tables[each]
            if deed == "remove":
                self.model.tables[each] = {k: v for k, v in content.items() if k > key}
                continue
            content[key] = value
            if deed == "append":
                content[IDS + len(self.told)] = key

    def _keep_up(self, name: str) -> None:
        """Apply, tidy, or compact the table as a stranger."""
        what = self.draw.randrange(5)
        if what == 0:
            assert [] == self.reader.apply_le()
        elif what == 1:
            assert 0 == one(self.session, "CALL lake.system.apply()").tables_left
        elif what == 2:
            self.reader.tidy()
        elif what == 3:
            self.session.sql("CALL lake.system.tidy()")
        elif self._lake.plain_python().table_exists(name):
            options = "options => map('rewrite-all', 'true')"
            self._outside.sql(f"CALL lake.system.rewrite_data_files('{name}', {options})")
        self.told[-1] += f": {what}"

    def check(self, *, everywhere: bool) -> None:
        """Compare what all read now with the model; remember it for later."""
        model = self.model
        for name in TABLES:
            expected = _sorted(model.tables.get(name))
            assert expected == _read(self.reader.catalog(), name), self.told
            assert expected == _query(self.session, name), self.told
        if everywhere:
            assert [] == self.reader.apply_le(), self.told
            for name in model.tables:
                expected = _sorted(model.tables[name])
                assert expected == _read(self._lake.plain_python(), name), self.told
                assert expected == _query(self._outside, name), self.told
        model.past[self.reader.upper] = {k: dict(v) for k, v in model.tables.items()}

    def check_the_past(self) -> int:
        """Compare what both read at earlier times with what was there; give how many times."""
        model, checked = self.model, 0
        for ts in self.draw.sample(sorted(model.past), min(len(model.past), 12)):
            self.session.sql(f"BEGIN READ ONLY, AS OF {ts}")
            for name in model.tables.keys() & model.past[ts].keys():
                if ts > model.made_at[name]:
                    expected = _sorted(model.past[ts][name])
                    assert expected == _read(self.reader.snapshot(ts), name), (ts, self.told)
                    assert expected == _query(self.session, name), (ts, self.told)
                    checked += 1
            self.session.sql("ROLLBACK")
        return checked


def _sorted(content: Content | None) -> list[tuple[int, int]] | None:
    return None if content is None else sorted(content.items(), key=repr)


def _read(catalog: txns.Transaction, name: str) -> list[tuple[int, int]] | None:
    return python_rows(catalog, name) if catalog.table_exists(name) else None


def _query(session: SparkSession, name: str) -> list[tuple[int, int]] | None:
    if not session.catalog.tableExists(f"lake.{name}"):
        return None
    return rows(session, f"SELECT * FROM lake.{name}")


def _run(lake: Lake, turns: int) -> None:
    seed = random.SystemRandom().randrange(2**32)
    print(f"seed: {seed}")
    game = Turns(lake, seed)
    for number in range(1, turns + 1):
        game.turn()
        game.check(everywhere=number % CHECK_EVERY == 0)
    game.check(everywhere=True)
    print(f"turns: {turns}; states of the past compared: {game.check_the_past()}")


@pytest.fixture
def lake(new_session: Callable[[], SparkSession], tmp_path: Path) -> Lake:
    """A lake of its own with the table db.t (id, v) and its rows (1, 10), (2, 20)."""
    return make_lake(new_session, tmp_path / "lake")


def test_random_turns(lake: Lake) -> None:
    """After each turn of either language, applied or not, both read what the model holds."""
    _run(lake, 16)


@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_many_random_turns(lake: Lake) -> None:
    """The same with more turns."""
    _run(lake, 150)
