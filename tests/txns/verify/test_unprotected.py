"""`txns verify-isolation` without one protection sees what it costs: see tests/unprotected.py."""

from __future__ import annotations

import sys

import pytest

from tests import unprotected
from tests.simulation.mutations import MUTATIONS
from tests.unprotected import SEEN, first_seen, main, verdict_without
from txns._verify.history import Deed, Outcome
from txns._verify.replay import Anomaly
from txns._verify.run import Verdict
from txns.errors import InvalidUsage


def test_what_is_taken_away_is_there():
    """By the names that the simulation has for it."""
    assert {*SEEN, *(also for each in SEEN.values() for also in each.also)} <= set(MUTATIONS)


@pytest.mark.parametrize(
    "arguments", [["--only", "read_check_droped"], ["--only", ""], ["--seconds", "0"]]
)
def test_what_is_asked_wrongly_is_refused(monkeypatch, capsys, arguments):
    """A protection that there is not was taken for one whose absence is seen."""
    monkeypatch.setattr(sys, "argv", ["unprotected", *arguments])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code
    assert arguments[0] in capsys.readouterr().err


def test_sessions_that_cannot_begin_have_seen_nothing(monkeypatch):
    """It is no lake that is not what it was."""
    monkeypatch.setattr(unprotected, "Without", _Unable)
    monkeypatch.setattr(sys, "argv", ["unprotected", "--only", "newest_read", "--seconds", "1"])
    with pytest.raises(InvalidUsage):
        main()


class _Unable:
    """A session that ends before it is ready."""

    def __init__(self, names):
        self.names = names

    def __call__(self, *_args):
        raise SystemExit(1)


def test_who_only_reads_has_seen_it_when_it_read():
    """Of four that wrote two had committed when a reader began."""
    writers = [Deed(f"w{ts}", 0, 0, ts - 5, commit_ts=ts) for ts in (10, 20, 30, 40)]
    reader = Deed("reader", 0, 0, 25, outcome=Outcome.COMMITTED)
    seen = Verdict([*writers, reader], [Anomaly("stale", "reader", ""), Anomaly("end", "", "")])
    assert (2, "stale") == first_seen(seen)
    assert (3, "lost") == first_seen(Verdict(writers, [Anomaly("lost", "w30", "")]))
    assert (4, "end") == first_seen(Verdict(writers, [Anomaly("end", "", "")]))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["read_check_dropped", "added_files_unread"])
def test_what_is_missing_is_seen(tmp_path, name):
    """Within a run of half a minute; how soon, `python -m tests.unprotected` tells."""
    verdict = verdict_without(name, tmp_path, 30, 5)
    number, _ = first_seen(verdict)
    assert number
