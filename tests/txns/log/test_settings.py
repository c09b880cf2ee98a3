"""The log's settings: for all of its processes, each of which may be stricter."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import txns
from tests.txns.lake import ids, rows
from txns._cli import main
from txns._log.entry import Kind
from txns._log.settings import Settings

HOUR_MS = 3600 * 1000
DAY_MS = 24 * HOUR_MS


@pytest.fixture
def a(lake) -> str:
    return lake.table("a", [1])


def _processes(lake, **options) -> txns.Handle:
    """A handle of another process, with exactly these options."""
    return txns.open(lake.another_catalog(), clock=lake.clock, **options)


def test_a_log_that_says_nothing_is_set_to_the_defaults(lake):
    assert Settings(DAY_MS, 7 * DAY_MS, "inline") == lake.open().settings()


def test_what_is_not_given_stays(lake):
    lake.open().change_settings(max_age_ms=2 * DAY_MS)
    assert Settings(2 * DAY_MS, 7 * DAY_MS, "next") == lake.open().change_settings(apply="next")
    assert Settings(2 * DAY_MS, 7 * DAY_MS, "next") == _processes(lake).settings()


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"max_age_ms": 999}, "max-age-ms is 1000 to 2592000000, not 999"),
        ({"max_age_ms": 31 * DAY_MS, "id_retention_ms": 40 * DAY_MS}, "max-age-ms"),
        ({"max_age_ms": 8 * DAY_MS}, "id-retention-ms is at least max-age-ms"),
        ({"id_retention_ms": 23 * HOUR_MS}, "id-retention-ms"),
        ({"apply": "later"}, "apply is inline or next"),
    ],
)
def test_what_a_log_cannot_be_set_to(lake, wrong, words):
    handle = lake.open()
    with pytest.raises(txns.InvalidUsage, match=words) as refused:
        handle.change_settings(**wrong)
    assert "22023" == refused.value.sqlstate
    assert Settings() == handle.settings()


def test_settings_stay_in_the_head_however_much_is_tidied(lake, a):
    """The newest ones, of which the archive has a row when they leave for others."""
    handle = lake.open()
    handle.change_settings(apply="next")
    handle.change_settings(max_age_ms=2 * DAY_MS)
    handle.catalog().load_table(a).append(rows(2))
    handle.tidy()
    handle.tidy()
    standing = handle.parts.log.load().state.entries
    assert [Kind.SETTINGS] == [entry.kind for entry in standing]
    assert Settings(2 * DAY_MS, 7 * DAY_MS, "next") == _processes(lake).settings()
    kinds = [row["kind"] for row in handle.transactions() if row["kind"] == "settings"]
    assert ["settings", "settings"] == kinds


def test_settings_of_the_head_make_nobody_read_the_archive_again(lake, a):
    """What the archive has for good is above nothing that names a table."""
    handle = lake.open()
    handle.change_settings(max_age_ms=2 * DAY_MS)
    handle.catalog().load_table(a).append(rows(2))
    handle.tidy()
    state = handle.parts.log.load().state
    assert state.tidied_upto == state.archived_upto > state.entries[0].commit_ts


# ---------------------------------------------------------------- the greatest age


def test_a_greatest_age_that_is_lowered_holds_for_transactions_that_are_open(lake, a):
    """
    A transaction ends by what the log is set to at its swap.

    1. A transaction begins, and writes.
    2. Somebody sets the log to a greatest age of an hour.
    3. Two hours later the transaction commits.
    """
    txn = _processes(lake).begin()
    txn.load_table(a).append(rows(2))
    lake.open().change_settings(max_age_ms=HOUR_MS)
    lake.clock.sleep(2 * HOUR_MS)
    with pytest.raises(txns.InvalidUsage, match="may be 3600 s") as refused:
        txn.commit()
    assert "25P04" == refused.value.sqlstate


def test_a_greatest_age_that_is_raised_holds_for_processes_that_are_running(lake, a):
    txn = _processes(lake).begin()
    txn.load_table(a).append(rows(2))
    lake.open().change_settings(max_age_ms=3 * DAY_MS)
    lake.clock.sleep(2 * DAY_MS)
    txn.commit()
    assert [1, 2] == lake.plain_ids(a)


def test_a_process_may_have_its_transactions_end_earlier(lake, a):
    txn = _processes(lake, max_age_s=60).begin()
    txn.load_table(a).append(rows(2))
    lake.clock.sleep(61_000)
    with pytest.raises(txns.InvalidUsage, match="may be 60 s"):
        txn.commit()


def test_a_process_may_not_have_them_end_later(lake, a, caplog):
    handle = _processes(lake, max_age_s=5 * 24 * 3600)
    assert "max_age_s is 432000, the log's 86400000 ms" in caplog.text
    txn = handle.begin()
    txn.load_table(a).append(rows(2))
    lake.clock.sleep(2 * DAY_MS)
    with pytest.raises(txns.InvalidUsage, match="may be 86400 s"):
        txn.commit()


# ---------------------------------------------------------------- ids


def test_a_clock_that_is_days_fast_commits_no_archived_id_again(lake, a):
    """
    Retention is measured between timestamps of the log.

    1. An id commits, and its entry leaves the head.
    2. A host whose clock is 8 days fast tries the same id.
    """
    lake.open().begin(txn_id="once")
    with lake.open().begin(txn_id="once") as txn:
        txn.load_table(a).append(rows(2))
    lake.open().tidy()
    lake.clock.sleep(8 * DAY_MS)
    handle = _processes(lake)
    assert handle.begin(txn_id="once").committed is not None
    assert handle.find("once") is not None


def test_a_log_that_ran_ahead_makes_no_id_older(lake, a):
    """
    The clock counts where the log is ahead of it.

    1. An id commits, and its entry leaves the head.
    2. A host whose clock is 8 days fast commits, so that the log is 8 days ahead.
    3. A host whose clock is right tries the id.
    """
    with lake.open().begin(txn_id="once") as txn:
        txn.load_table(a).append(rows(2))
    lake.clock.ahead_ms = 8 * DAY_MS
    lake.open().catalog().load_table(a).append(rows(3))
    lake.open().tidy()
    lake.clock.ahead_ms = 0
    assert _processes(lake).begin(txn_id="once").committed is not None


def test_ids_are_looked_for_as_far_back_as_the_log_says(lake, a):
    """And no less far, whatever a process was configured with."""
    lake.open().change_settings(id_retention_ms=30 * DAY_MS)
    with lake.open().begin(txn_id="once") as txn:
        txn.load_table(a).append(rows(2))
    lake.clock.sleep(20 * DAY_MS)
    lake.open().catalog().load_table(a).append(rows(3))
    lake.open().tidy()
    assert _processes(lake, id_retention_days=1).find("once") is not None
    lake.clock.sleep(11 * DAY_MS)
    lake.open().catalog().load_table(a).append(rows(4))
    lake.open().tidy()
    assert _processes(lake).find("once") is None
    assert _processes(lake, id_retention_days=60).find("once") is not None


# ---------------------------------------------------------------- apply


def test_a_process_leaves_the_apply_to_others_where_the_log_says_so(lake, a):
    lake.open().change_settings(apply="next")
    _processes(lake).catalog().load_table(a).append(rows(2))
    assert [1] == lake.plain_ids(a)
    assert [1, 2] == ids(_processes(lake).snapshot().load_table(a))
    _processes(lake, apply="inline").catalog().load_table(a).append(rows(3))
    assert [1, 2, 3] == lake.plain_ids(a)


def test_a_process_applies_where_the_log_says_so(lake, a, caplog):
    handle = _processes(lake, apply="next")
    assert "apply is next, the log's inline" in caplog.text
    handle.catalog().load_table(a).append(rows(2))
    assert [1, 2] == lake.plain_ids(a)


# ---------------------------------------------------------------- the command line


def test_the_command_line_shows_and_sets_them(lake):
    lake.open()

    def cli(*args: str):
        options = ["--uri", lake.catalog.properties["uri"], "--catalog", "lake"]
        options += ["--warehouse", lake.catalog.properties["warehouse"]]
        return CliRunner().invoke(main, [*args, *options])

    assert "max age       1d\nid retention  7d\napply         inline\n" == cli("settings").stdout
    changed = cli("settings", "--max-age", "48h", "--id-retention", "36h", "--apply", "next")
    assert 2 == changed.exit_code
    assert "id-retention-ms" in changed.stderr
    assert "apply         next" in cli("settings", "--max-age", "36h", "--apply", "next").stdout
    assert (
        '{"max_age_ms": 129600000, "id_retention_ms": 604800000, "apply": "next"}\n'
        == cli("settings", "--json").stdout
    )
    assert "settings     max age 36h, id retention 7d, apply next" in cli("status").stdout
    assert '"apply": "next"' in cli("status", "--json").stdout
