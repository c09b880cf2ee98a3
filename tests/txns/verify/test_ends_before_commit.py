"""A transaction that ends before its COMMIT has read all the same, and is judged by what it saw."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from pathlib import Path
from random import Random
from types import SimpleNamespace

import pytest

from txns._verify import disturbances, workloads
from txns._verify import run as verify_run
from txns._verify.history import Deed, Outcome, as_elle
from txns._verify.model import Row, Step, where
from txns._verify.plan import Plan
from txns._verify.processes import Ran
from txns._verify.python_client import PythonClient
from txns._verify.session import work
from txns._verify.statements import arrow
from txns._verify.workloads import ACCOUNT_TABLES, EVENTS, HERE, LISTS, TABLES, initial
from txns.errors import Conflict

LEVELS = ("SNAPSHOT", "SERIALIZABLE", "STRICT SERIALIZABLE")
READ = Step("read", HERE)


class Session:
    """One session's transactions in this process, on tables of their own."""

    def __init__(self, lake, handle, monkeypatch, level=LEVELS[-1]):
        self.handle = handle
        folder = lake.folder / "told"
        folder.mkdir()
        names = {name: f"shop.{name}" for name in TABLES}
        self.plan = Plan(
            "lake", {}, "txns.commits", names, {}, level, 1, str(folder), 4, ("python",)
        )
        verify_run.make_tables(handle, names)
        self._patches = monkeypatch

    def runs(self, program, times=1, client=PythonClient):
        """Run a program so often, and judge what it saw."""
        left = iter([True] * times + [False])
        timing = SimpleNamespace(goes_on=lambda: next(left))
        self._patches.setattr(workloads, "_ROLLED_BACK", 0, raising=False)
        for name in [*workloads.WORKLOADS]:
            self._patches.delitem(workloads.WORKLOADS, name)
        self._patches.setitem(workloads.WORKLOADS, program, 1)
        work(self.plan, timing, client(self.plan, self.handle), 0, 0)
        return self.judged()

    def judged(self, **ran):
        return verify_run.judge(self.handle, self.plan, Ran(0, [], **ran), self.plan.level)

    def table(self, name):
        return self.handle.catalog().load_table(self.plan.tables[name])


@pytest.fixture
def session(lake, handle, monkeypatch):
    return Session(lake, handle, monkeypatch)


def _double(session):
    for name in ACCOUNT_TABLES:
        session.table(name).append(arrow(initial()[name]))


def _empty(session):
    for name in ACCOUNT_TABLES:
        session.table(name).delete("id >= 0")


@pytest.mark.parametrize("damage", [_double, _empty])
@pytest.mark.parametrize("program", [workloads.transfer, workloads.withdraw])
def test_an_account_that_is_there_twice_or_not_at_all_is_an_anomaly(session, damage, program):
    """It is what the bank is there to find, and no error."""
    damage(session)
    verdict = session.runs(program, times=3)
    wrong = {each.txn_id for each in verdict.anomalies if each.name == "snapshot read"}
    assert {deed.txn_id for deed in verdict.deeds} == wrong
    assert 3 == verdict.count(Outcome.ROLLED_BACK)
    assert not verdict.failures
    assert not [line["type"] for line in as_elle(verdict.deeds)]  # it has no lists


class _Refused(PythonClient):
    """Who loses where it writes."""

    def carry_out(self, step):
        if step.verb == "append":
            raise Conflict("lists was written", table=("shop", "lists"), txn_id="one")
        return super().carry_out(step)


class _Failing(PythonClient):
    """Whose storage is away where it writes."""

    def carry_out(self, step):
        if step.verb == "append":
            raise OSError("storage is away")
        return super().carry_out(step)


def _reads_and_writes(rng, do, fresh):
    do(READ)
    do(Step("append", EVENTS, rows=(Row(fresh(), 1, rng.randrange(2)),)))


def _reads_and_rolls_back(rng, do, fresh):
    _reads_and_writes(rng, do, fresh)
    raise workloads.RolledBack


def _reads_and_trips(_rng, do, _fresh):
    do(READ)
    assert {} == do(READ), "not what it was written for"


ENDINGS = {
    "refused": (_reads_and_writes, _Refused),
    "failed": (_reads_and_writes, _Failing),
    "rolled_back": (_reads_and_rolls_back, PythonClient),
    "trips": (_reads_and_trips, PythonClient),
}


@pytest.mark.parametrize("level", LEVELS)
@pytest.mark.parametrize("ending", ENDINGS)
def test_what_it_read_has_to_be_what_stood_at_its_read_ts(lake, handle, monkeypatch, level, ending):
    session = Session(lake, handle, monkeypatch, level)
    _double(session)
    program, client = ENDINGS[ending]
    verdict = session.runs(program, client=client)
    (deed,) = verdict.deeds
    assert ending.replace("trips", "failed") == deed.outcome.value
    assert READ == deed.steps[0]
    (told,) = {each.txn_id for each in verdict.anomalies if each.name == "snapshot read"}
    assert deed.txn_id == told


@pytest.mark.parametrize("ending", ENDINGS)
def test_who_saw_that_shows_nothing_wrong(session, ending):
    """One error alone is told, and makes no run doubtful; a conflict and a ROLLBACK are none."""
    program, client = ENDINGS[ending]
    verdict = session.runs(program, client=client)
    assert [] == verdict.anomalies
    (deed,) = verdict.deeds
    failed = deed.outcome is Outcome.FAILED
    assert failed == bool(verdict.failures)
    assert not any("no conflicts" in words for words in verdict.doubts)


def test_one_that_stands_in_the_log_all_the_same_was_told_an_untruth(session):
    class Commits(PythonClient):
        def carry_out(self, step):
            super().carry_out(step)
            self.commit()
            raise OSError("the connection was lost")

    def appends(_rng, do, fresh):
        do(Step("append", EVENTS, rows=(Row(fresh(), 1, 1),)))

    verdict = session.runs(appends, client=Commits)
    assert "untrue answer" in [each.name for each in verdict.anomalies]


def test_a_file_that_is_gone_is_an_anomaly(session):
    """Somebody has expired what a transaction reads still."""

    def reads_what_has_gone(_rng, do, _fresh):
        here = session.table(HERE)
        files = [task.file.file_path.removeprefix("file://") for task in here.scan().plan_files()]
        here.overwrite(arrow(initial()[HERE]))
        for path in files:
            Path(path).unlink()
        do(READ)

    verdict = session.runs(reads_what_has_gone)
    assert ["missing file"] == [each.name for each in verdict.anomalies]
    assert "FileNotFoundError" in verdict.anomalies[0].words


def test_a_run_with_many_errors_is_doubtful(session):
    """More than one in a hundred of a client's transactions; fewer are told on the page."""
    plan = replace(session.plan, clients=("python", "spark"))
    deeds = [Deed(f"{n}", 0, 0, 1, outcome=Outcome.COMMITTED) for n in range(500)]
    deeds += [Deed(f"{n}", 1, 0, 1, outcome=Outcome.COMMITTED) for n in range(100)]
    errors = Counter({(0, "OSError: the catalog is away"): 5, (1, "OSError: it is away"): 1})
    assert [] == [*verify_run.short_of(plan, deeds, errors)]
    errors[1, "OSError: storage is away"] += 1
    many = "2 errors that were no conflicts beside 100 transactions of spark, more than 1 %"
    assert [many] == [*verify_run.short_of(plan, deeds, errors)]


def test_both_clients_have_to_commit(session):
    """What one of them does is not shown by the other."""
    plan = replace(session.plan, clients=("python", "spark"))
    deeds = [Deed("one", 0, 0, 1, outcome=Outcome.COMMITTED), Deed("two", 1, 0, 1)]
    told = [*verify_run.short_of(plan, deeds, Counter())]
    assert ["no transaction of spark has committed"] == told


def test_in_elles_format_it_has_failed():
    """Whatever it was that ended it: nobody may read what it has appended."""
    read = Step("read", LISTS, where("day", "=", 3))
    append = Step("append", LISTS, rows=(Row(5, 3, 0),))
    for outcome in (Outcome.REFUSED, Outcome.ROLLED_BACK, Outcome.FAILED):
        deed = Deed("one", 1, 0, 1, [read, append], [(), None], outcome=outcome, ended_ms=2)
        lines = [json.loads(json.dumps(line)) for line in as_elle([deed])]
        assert ["invoke", "fail"] == [line["type"] for line in lines]
        assert [["r", 3, None], ["append", 3, 5]] == lines[1]["value"]


def test_a_program_is_rolled_back_now_and_then(monkeypatch):
    """So that somebody may see what nobody may."""
    monkeypatch.setattr(workloads, "_ROLLED_BACK", 1.0)
    with pytest.raises(workloads.RolledBack):
        workloads.at_random(Random(4), lambda _step: 0, lambda: 1)


def test_what_was_to_go_on_beside_and_did_not_is_told(session):
    """A soak without one compaction is none, whether it failed or there was nothing to do."""
    told = {
        disturbances.COMPACTION: [{"deed": "failed", "why": "ForbiddenError: no right; at=`1`"}]
        * 2,
        disturbances.EXPIRY: [{"deed": "failed", "why": "Conflict: lost"}, _expired(0)],
    }
    for name, lines in told.items():
        path = Path(session.plan.folder, disturbances.journal_name(name, 0))
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    verdict = session.judged(disturbers=[*disturbances.ALL])
    assert [
        "compaction never worked: 2 times ForbiddenError: no right",
        "stranger has not happened once: give it more --seconds",
    ] == verdict.wrong
    assert [] == session.judged().wrong


def _expired(snapshots):
    return {"deed": "expired", "snapshots": snapshots}
