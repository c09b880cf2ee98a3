"""Tries under one id of the caller's: what a conflict says of the others, and how it is kept."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import ForbiddenError

import txns
from tests.txns.commit.test_commit_loop import dropped, staged
from tests.txns.lake import ids, rows
from tests.txns.test_regression import commit_at_once
from tests.txns.wrapped import COMMITS, Wrapped
from txns._commit import group_commit


def clashing(handle, table, **options):
    """Begin a transaction that loses against any other write of a table."""
    txn = handle.begin(**options)
    ids(txn.load_table(table))
    txn.load_table(table).delete("id == 1")
    return txn


def aborts(lake):
    """Give the ids of the aborts in the log and its archive."""
    return [row["txn_id"] for row in lake.open().transactions() if row["kind"] == "abort"]


def refused(txn, *, match="was written"):
    """Commit what cannot be committed."""
    with pytest.raises(txns.Conflict, match=match):
        txn.commit()


# -------------------------------------------------------------------- the promise


def test_a_conflict_is_one_of_earlier_tries(lake):
    """
    A try that was told a conflict is not followed by an earlier one that lands.

    1. T1 and T2 begin under one id; T2 clashes with what another commits then. 2. T1's swap is on
    its way, and its process is cut off. 3. T2 is told a conflict. 4. T1's swap arrives.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    on_its_way = []

    def swap(real):
        on_its_way.append(real)
        catalog.load = dropped
        return dropped(real)

    catalog = Wrapped(lake.another_catalog())
    first = staged(lake.open(catalog), b, 1, txn_id="nightly")
    second = clashing(lake.open(), a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    catalog.swap = swap
    with pytest.raises(txns.CommitStateUnknown):
        first.commit()
    refused(second)
    with pytest.raises(Exception, match="has changed"):
        on_its_way[0]()
    assert lake.open().find("nightly") is None
    assert [] == ids(lake.open().snapshot().load_table(b))


def test_an_earlier_try_is_refused(lake):
    """Who validates after the abort is told a conflict as well, and needs no abort of its own."""
    a, b = lake.table("a", [1]), lake.table("b")
    early = staged(lake.open(lake.another_catalog()), b, 1, txn_id="nightly")
    late = clashing(lake.open(), a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    refused(late)
    with pytest.raises(txns.Conflict, match="a try under its id") as told:
        early.commit()
    assert ["nightly"] == aborts(lake)
    assert lake.open().upper == told.value.least_ts
    assert [] == ids(lake.open().snapshot().load_table(b))


def test_an_earlier_try_is_refused_when_the_abort_has_left_the_head(lake):
    """A tidy in between takes the abort into the archive, where it is looked for, too."""
    a, b = lake.table("a", [1]), lake.table("b")
    early = staged(lake.open(lake.another_catalog()), b, 1, txn_id="nightly")
    late = clashing(lake.open(), a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    refused(late)
    lake.open().tidy()
    assert () == lake.open().parts.log.load().state.entries
    refused(early, match="a try under its id")


def test_a_later_try_commits(lake):
    """Whoever begins after the conflict was told may commit, once, and ids are found by it."""
    a = lake.table("a", [1])
    handle = lake.open()
    for value in (2, 3):
        txn = clashing(handle, a, txn_id="nightly")
        staged(lake.open(), a, value).commit()
        refused(txn)
        assert handle.find("nightly") is None
    committed = clashing(handle, a, txn_id="nightly").commit()
    assert handle.find("nightly").commit_ts == committed.commit_ts
    assert handle.begin(txn_id="nightly").committed.commit_ts == committed.commit_ts
    handle.tidy()
    assert handle.find("nightly").commit_ts == committed.commit_ts
    assert ["nightly", "nightly"] == aborts(lake)
    assert [2, 3] == lake.plain_ids(a)


def test_a_try_as_of_before_the_abort(lake):
    """What it reads at is when it began: it says from when on it may."""
    a, b = lake.table("a", [1]), lake.table("b")
    handle = lake.open()
    as_of = handle.upper
    late = clashing(handle, a, txn_id="nightly")
    staged(handle, a, 2).commit()
    refused(late)
    options = {"txn_id": "nightly", "isolation": "SNAPSHOT"}
    with pytest.raises(txns.Conflict, match="a try under its id") as told:
        staged(handle, b, 1, as_of=as_of, **options).commit()
    staged(handle, b, 1, as_of=told.value.least_ts, **options).commit()
    assert [1] == lake.plain_ids(b)


def test_a_conflict_before_the_loop(lake, monkeypatch):
    """One that is met while the commit is prepared keeps the promise as well."""
    a = lake.table("a", [1])

    def protect(*_a, txn_id, **_k):
        raise txns.Conflict("the table has lost a snapshot", txn_id=txn_id)

    txn = staged(lake.open(), a, 2, txn_id="nightly")
    monkeypatch.setattr("txns._stage.kept_tags.protect", protect)
    refused(txn, match="lost a snapshot")
    assert ["nightly"] == aborts(lake)


# -------------------------------------------------------------------- who needs none


def test_a_fresh_id_needs_no_abort(lake):
    """Nobody else can try it: its conflict writes nothing."""
    a = lake.table("a", [1])
    txn = clashing(lake.open(), a)
    staged(lake.open(), a, 2).commit()
    before = lake.catalog.load_table(COMMITS).metadata_location
    refused(txn)
    assert lake.catalog.load_table(COMMITS).metadata_location == before


def test_a_fresh_id_that_another_tries_again(lake):
    """
    Its first try obeys the aborts of those who ask what became of it.

    1. T1 is about to swap. 2. T2 tries its id again, is told a conflict, and a tidy archives the
    abort. 3. T1's swap is lost, and it tries again.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    other = lake.open()

    def swap(real):
        catalog.swap = None
        again = clashing(other, a, txn_id=first.txn_id)
        staged(lake.open(), a, 2).commit()
        refused(again)
        other.tidy()
        return real()

    catalog = Wrapped(lake.another_catalog(), swap)
    first = staged(lake.open(catalog), b, 1)
    refused(first, match="a try under its id")
    assert [first.txn_id] == aborts(lake)
    assert [] == ids(lake.open().snapshot().load_table(b))


def test_a_fresh_id_that_another_tried_before_its_first_attempt(lake):
    """
    It looks into the archive as well, where something was tidied since it began.

    1. T1 begins. 2. T2 tries its id again, is told a conflict, and a tidy archives the abort.
    3. T1 commits.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    first = staged(lake.open(lake.another_catalog()), b, 1)
    again = clashing(lake.open(), a, txn_id=first.txn_id)
    staged(lake.open(), a, 2).commit()
    refused(again)
    lake.open().tidy()
    assert () == lake.open().parts.log.load().state.entries
    refused(first, match="a try under its id")
    assert [] == ids(lake.open().snapshot().load_table(b))


def test_what_the_archive_is_asked_for(lake, monkeypatch):
    """
    A fresh id costs a look into the archive for each tidy since its try began, and no other.

    1. T1 begins and commits. 2. T2 begins, somebody commits, a tidy follows. 3. T2's first swap is
    lost to another one, its second to a commit and a tidy.
    """
    a, b = lake.table("a", [1]), lake.table("b")
    other = lake.open()
    asked, deeds, uppers = [], [], []

    def commit_elsewhere():
        uppers.append(staged(other, a, 2).commit().commit_ts)

    def tidy_elsewhere():
        commit_elsewhere()
        other.tidy()

    def swap(real):
        if deeds:
            deeds.pop(0)()
        return real()

    catalog = Wrapped(lake.another_catalog(), swap)
    handle = lake.open(catalog, tidy_after=1000)
    under = handle.parts.timeline.archive.under
    monkeypatch.setattr(
        type(handle.parts.timeline.archive),
        "under",
        lambda _, *how: asked.append(how[1]) or under(*how),
    )
    staged(handle, b, 1).commit()
    handle.catalog().load_table(b).append(rows(2))
    assert [] == asked
    txn = staged(handle, b, 3)
    begun = handle.upper
    tidy_elsewhere()
    deeds += [commit_elsewhere, tidy_elsewhere]
    txn.commit()
    assert [begun, uppers[1]] == asked
    assert [1, 2, 3] == ids(lake.open().snapshot().load_table(b))


def test_a_rollback_leaves_no_abort(lake):
    """It says what becomes of one try; only the conflict of a commit speaks of the others."""
    a = lake.table("a", [1])
    handle = lake.open()
    staged(handle, a, 2, txn_id="nightly").rollback()
    assert [] == aborts(lake)


# -------------------------------------------------------------------- the abort's own swap


def test_a_lost_answer_of_the_abort(lake):
    """It is settled by the abort in the next head, and what is told is why the try was refused."""
    a = lake.table("a", [1])

    def swap(real):
        real()
        catalog.swap = None
        return dropped(real)

    catalog = Wrapped(lake.another_catalog())
    txn = clashing(lake.open(catalog), a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    before = lake.files()
    catalog.swap = swap
    refused(txn)
    assert ["nightly"] == aborts(lake)
    assert txns.State.ROLLED_BACK is txn.state
    assert not {path for path in lake.files() - before if path.endswith(".parquet")}


def test_an_abort_that_does_not_get_through(lake):
    """Nobody is told a conflict that may be untrue: the outcome is unknown, the files stay."""
    a = lake.table("a", [1])

    def swap(real):
        catalog.load = dropped
        return dropped(real)

    catalog = Wrapped(lake.another_catalog())
    txn = clashing(lake.open(catalog), a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    before = lake.files()
    catalog.swap = swap
    with pytest.raises(txns.CommitStateUnknown):
        txn.commit()
    assert before <= lake.files()
    assert [] == aborts(lake)


def test_an_abort_that_is_refused(lake):
    """The refusal is told as what it is, and the next COMMIT may work."""
    a = lake.table("a", [1])

    def swap(_real):
        raise ForbiddenError("no writer here")

    catalog = Wrapped(lake.another_catalog())
    txn = clashing(lake.open(catalog), a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    catalog.swap = swap
    with pytest.raises(ForbiddenError):
        txn.commit()
    catalog.swap = None
    refused(txn)
    assert ["nightly"] == aborts(lake)


@pytest.mark.parametrize("txn_id", [None, "nightly"])
def test_too_many_others(lake, monkeypatch, txn_id):
    """Under a caller's id nothing is known then: others may have tried it."""
    a = lake.table("a", [1])
    monkeypatch.setattr(group_commit, "MAX_ATTEMPTS", 3)

    def swap(real):
        staged(lake.open(), a, 3).commit()
        return real()

    catalog = Wrapped(lake.another_catalog(), swap)
    txn = staged(lake.open(catalog), a, 2, txn_id=txn_id)
    with pytest.raises(txns.CommitStateUnknown if txn_id else txns.Conflict):
        txn.commit()
    assert [] == aborts(lake)


def test_a_log_that_takes_no_writers(lake):
    """No entry stands above an `off`: the error is that one, which promises nothing."""
    a = lake.table("a", [1])
    handle = lake.open()
    txn = clashing(handle, a, txn_id="nightly")
    staged(lake.open(), a, 2).commit()
    handle.off()
    with pytest.raises(txns.Unsupported, match="transactions are off"):
        txn.commit()
    assert [] == aborts(lake)


# -------------------------------------------------------------------- in a group


def swaps(handle, monkeypatch):
    """Give the kinds of the entries of each swap from here on."""
    kinds, append = [], handle.parts.log.append

    def noted(head, entries, *also, **options):
        kinds.append(sorted(entry.kind.value for entry in entries))
        return append(head, entries, *also, **options)

    monkeypatch.setattr(handle.parts.log, "append", noted)
    return kinds


def test_an_abort_in_a_group(lake, monkeypatch):
    """Of two tries in one swap the first is refused: the second is by its abort."""
    a, b = lake.table("a", [1]), lake.table("b")
    handle = lake.open()
    tries = [clashing(handle, a, txn_id="nightly"), staged(handle, b, 1, txn_id="nightly")]
    staged(lake.open(), a, 2).commit()
    kinds = swaps(handle, monkeypatch)
    outcomes = commit_at_once(handle, tries)
    assert [txns.Conflict] * 2 == [type(each) for each in outcomes]
    assert [["abort"]] == kinds
    staged(handle, b, 3, txn_id="nightly").commit()
    assert [3] == lake.plain_ids(b)


def test_an_abort_beside_a_commit(lake, monkeypatch):
    """One swap has the abort of one member and the entry of another."""
    a, b = lake.table("a", [1]), lake.table("b")
    handle = lake.open()
    members = [clashing(handle, a, txn_id="nightly"), staged(handle, b, 5)]
    staged(lake.open(), a, 2).commit()
    kinds = swaps(handle, monkeypatch)
    lost, won = commit_at_once(handle, members)
    assert isinstance(lost, txns.Conflict)
    assert [["abort", "commit"]] == kinds
    assert won.commit_ts == lake.open().find(won.txn_id).commit_ts
    assert [5] == lake.plain_ids(b)


# -------------------------------------------------------------------- who meets an abort


@pytest.mark.parametrize("tidied", [False, True])
def test_an_abort_is_passed_over(lake, tidied):
    """It writes no table: it is no delivery, nobody waits for it, and it clashes with nobody."""
    a, b = lake.table("a", [1]), lake.table("b")
    handle = lake.open()
    start = handle.upper
    late = clashing(handle, a, txn_id="nightly")
    reader = handle.begin()
    reader.load_table(b).scan().to_arrow()
    commit_ts = staged(handle, a, 2).commit().commit_ts
    refused(late)
    if tidied:
        handle.tidy()
    assert [commit_ts, handle.upper] == [
        each.commit_ts for each in handle.subscribe([a], as_of=start, until=handle.upper)
    ]
    assert handle.wait(a, commit_ts, timeout_ms=0) is None
    row = handle.transactions()[-1]
    assert ("abort", None, True) == (row["kind"], row["table_name"], row["applied"])
    reader.load_table(b).append(rows(3))
    reader.commit()
