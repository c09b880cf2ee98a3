"""Adoption of a state that the catalog itself has not: of a replica, or of a moment ago."""

from __future__ import annotations

import pytest
from pyiceberg.exceptions import (
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    ServerError,
)

import txns
from tests.txns.lake import ids, rows
from tests.txns.table.test_set_back import set_back
from txns._stage.change_builder import main_at

A = "shop.a"


class Orders:
    """A table whose two entries are archived, and the catalog of somebody who adopts it."""

    def __init__(self, lake, monkeypatch) -> None:
        lake.table("a", [1])
        self.older = lake.catalog.load_table(A)
        writer = lake.open()
        writer.catalog().load_table(A).append(rows(2))
        assert writer.tidy()
        self.newest = lake.catalog.load_table(A)
        self.lake, self.catalog, self._monkeypatch = lake, lake.another_catalog(), monkeypatch

    def set_back(self) -> None:
        set_back(self.lake, A, self.older.metadata_location)

    def whole_again(self) -> None:
        set_back(self.lake, A, self.newest.metadata_location)

    def lags(self, table) -> None:
        """Let a replica give a table for good; swaps go to the catalog itself."""
        load, itself = self.catalog.load_table, self.lake.another_catalog()
        self._monkeypatch.setattr(
            self.catalog, "load_table", lambda name: table if name == table.name() else load(name)
        )
        self._monkeypatch.setattr(self.catalog, "commit_table", itself.commit_table)

    def disturb(self, name: str, instead) -> None:
        """Let the first swap of a table be another call, which is given the swap."""
        commit, left = self.catalog.commit_table, [instead]

        def disturbed(table, *args):
            if table.name()[-1] == name and left:
                return left.pop()(lambda: commit(table, *args))
            return commit(table, *args)

        self._monkeypatch.setattr(self.catalog, "commit_table", disturbed)

    def adopt(self) -> int:
        return self.lake.open(self.catalog).repair_adopt(A)

    def dies_behind_the_footing(self) -> None:
        def dies(_swap):
            raise KeyboardInterrupt

        self.disturb("commits", dies)
        with pytest.raises(KeyboardInterrupt):
            self.adopt()

    def seen(self) -> list[int]:
        """Give what everybody sees, through the protocol and outside it."""
        handle = self.lake.open(self.lake.another_catalog())
        handle.apply_le()
        seen = ids(handle.snapshot().load_table(A))
        assert seen == self.lake.plain_ids(A)
        return seen

    def upper(self) -> int:
        return self.lake.open().upper


@pytest.fixture
def orders(lake, monkeypatch):
    return Orders(lake, monkeypatch)


def test_what_a_replica_gives_for_long_is_not_adopted(orders):
    """1. a is written, and tidied. 2. A replica has it as it was. 3. Somebody adopts that."""
    orders.lags(orders.older)
    upper = orders.upper()
    with pytest.raises(txns.Conflict, match="another state of the table"):
        orders.adopt()
    assert (upper, [1, 2]) == (orders.upper(), orders.seen())


def test_a_replica_is_asked_for_about_half_a_second(orders):
    """Before a table is called set back."""
    orders.lags(orders.older)
    slept_ms = orders.lake.clock.slept_ms
    with pytest.raises(txns.Quarantined, match="set back"):
        orders.lake.open(orders.catalog).snapshot().load_table(A)
    assert orders.lake.clock.slept_ms - slept_ms >= 1000  # at most; the half of it on average


def test_what_was_made_whole_before_the_footing_is_not_adopted(orders):
    """1. a is set back. 2. It is loaded to be adopted. 3. Its newest metadata comes back."""
    orders.set_back()
    orders.disturb("a", lambda swap: (orders.whole_again(), swap())[1])
    with pytest.raises(txns.Conflict, match="another state of the table"):
        orders.adopt()
    assert [1, 2] == orders.seen()


def test_what_was_made_whole_after_the_footing_is_not_set_back_by_the_entry(orders):
    """1. The footing stands. 2. The newest metadata comes back. 3. The entry is appended."""
    orders.set_back()
    orders.disturb("commits", lambda swap: (orders.whole_again(), swap())[1])
    orders.adopt()
    with pytest.raises(txns.Quarantined, match="repair adopt"):
        orders.seen()
    assert [1, 2] == orders.lake.plain_ids(A)
    orders.lake.open().repair_adopt(A)
    assert [1, 2] == orders.seen()


def test_a_table_that_was_set_back_is_adopted_once(orders):
    """Whoever asks again is told that there is nothing left."""
    orders.set_back()
    orders.adopt()
    upper = orders.upper()
    with pytest.raises(txns.Unsupported, match="nothing to repair"):
        orders.adopt()
    assert (upper, [1]) == (orders.upper(), orders.seen())


def test_an_adoption_that_dies_behind_its_footing_is_made_again(orders):
    """The footing has the rows that are there: nothing is seen of it."""
    orders.set_back()
    orders.dies_behind_the_footing()
    handle = orders.lake.open()
    with pytest.raises(txns.Quarantined, match="set back"):
        handle.snapshot().load_table(A)
    applied = int(orders.older.properties["txns.applied"])
    assert [1] == ids(handle.snapshot(applied).load_table(A))
    orders.adopt()
    assert [1] == orders.seen()


def test_a_footing_keeps_no_newest_metadata_out(orders):
    """1. A footing stands, and no entry. 2. The newest metadata comes back."""
    orders.set_back()
    orders.dies_behind_the_footing()
    orders.whole_again()
    orders.lake.open().catalog().load_table(A).append(rows(3))
    assert [1, 2, 3] == orders.seen()


@pytest.mark.parametrize(
    "error",
    [
        CommitFailedException,
        CommitStateUnknownException,
        ForbiddenError,
        ServerError,
        ConnectionError,
    ],
)
def test_a_footing_without_an_answer_counts_when_it_is_seen(orders, error):
    """A client that repeats a request by itself may say "lost" of what has landed, too."""
    orders.set_back()

    def answers(swap):
        swap()
        raise error

    orders.disturb("a", answers)
    orders.adopt()
    assert [1] == orders.seen()


def test_a_footing_that_is_not_seen_is_none(orders):
    """It may land later: it asserts where main stands, and has the same rows."""
    orders.set_back()
    late = []

    def unknown(swap):
        late.append(swap)
        raise CommitStateUnknownException

    orders.disturb("a", unknown)
    upper = orders.upper()
    with pytest.raises(txns.Conflict):
        orders.adopt()
    assert upper == orders.upper()
    late[0]()
    orders.adopt()
    assert [1] == orders.seen()


def test_a_refused_footing_is_told(orders):
    """Nobody else has changed the table: to adopt it again would be refused as well."""
    orders.set_back()

    def refused(_swap):
        raise ForbiddenError("not allowed")

    orders.disturb("a", refused)
    with pytest.raises(ForbiddenError, match="not allowed"):
        orders.adopt()
    orders.adopt()
    assert [1] == orders.seen()


def test_no_footing_is_put_while_transactions_are_off(orders):
    """There would be no entry above it."""
    orders.lake.catalog.load_table(A).overwrite(rows(5))
    handle = orders.lake.open()
    handle.off()
    before = orders.lake.catalog.load_table(A).metadata
    with pytest.raises(txns.Unsupported, match="transactions are off"):
        orders.adopt()
    assert before == orders.lake.catalog.load_table(A).metadata
    handle.on()  # it adopts what was written meanwhile
    assert [5] == orders.seen()


def test_a_state_with_another_applied_is_not_adopted(orders):
    """1. a is set back. 2. It is loaded to be adopted. 3. Its `txns.applied` is raised."""
    orders.set_back()

    def raised(swap):
        table, applied = orders.lake.catalog.load_table(A), "txns.applied"
        higher = int(table.properties[applied]) + 1
        table.transaction().set_properties({applied: str(higher)}).commit_transaction()
        return swap()

    orders.disturb("a", raised)
    upper = orders.upper()
    with pytest.raises(txns.Conflict, match="another state of the table"):
        orders.adopt()
    assert upper == orders.upper()


def test_a_state_that_is_judged_otherwise_is_not_adopted(orders):
    """1. A stranger overwrites a. 2. It is loaded to be adopted. 3. Its mark is taken."""
    orders.lake.catalog.load_table(A).overwrite(rows(5))

    def taken(swap):
        table = orders.lake.catalog.load_table(A)
        with table.transaction() as change:
            change.remove_properties("txns.commit-table")
        return swap()

    orders.disturb("a", taken)
    upper = orders.upper()
    with pytest.raises(txns.Conflict, match="another state of the table"):
        orders.adopt()
    assert upper == orders.upper()


def test_a_table_is_set_back_and_adopted_twice(orders):
    """To the same metadata: the second time it is another deed, though nothing tells them apart."""
    orders.set_back()
    orders.adopt()
    upper = orders.upper()
    orders.set_back()
    orders.adopt()
    assert (True, [1]) == (orders.upper() > upper, orders.seen())


def test_two_adopt_at_once(orders):
    """Each has a footing of its own: the second one's entry is refused."""
    orders.set_back()
    orders.disturb("commits", lambda swap: (orders.lake.open().repair_adopt(A), swap())[1])
    with pytest.raises(txns.Conflict):
        orders.adopt()
    assert [1] == orders.seen()
    refs = orders.lake.catalog.load_table(A).refs()
    assert ["main"] == list(refs)


def test_a_rollback_that_was_undone_is_not_adopted(orders):
    """1. A stranger rolls main back. 2. A replica has that. 3. The stranger takes it back."""
    catalog, main = orders.lake.catalog, orders.newest.metadata.current_snapshot_id
    below = orders.newest.current_snapshot().parent_snapshot_id
    table = catalog.load_table(A)
    catalog.commit_table(table, (), (main_at(table.metadata, below),))
    rolled_back = catalog.load_table(A)
    catalog.commit_table(rolled_back, (), (main_at(rolled_back.metadata, main),))
    orders.lags(rolled_back)
    with pytest.raises(txns.Conflict):
        orders.adopt()
    assert [1, 2] == orders.seen()
