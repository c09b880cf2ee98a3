"""Two who meet in one table, file by file: refused, and seen by the model where they are not."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from tests.simulation.attempts import Read
from tests.simulation.mutations import without_protection
from tests.simulation.rows import compact, held
from tests.simulation.scheduler import Violation
from tests.simulation.stage import A, B, Stage, staged
from tests.simulation.where import Where, of_key
from txns.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from tests.simulation.rows import Rows
    from tests.simulation.stage import Txn

ALL_ROWS = Where(low=1)


@pytest.fixture
def stage() -> Iterator[Stage]:
    with staged(server=False) as made:
        made.history.by_file = True
        yield made


def reads(txn: Txn, where: Where, *, conditional: bool = False) -> Rows:
    """Read the rows of A that match."""
    table = txn.catalog.load_table(A)
    found = where.of(held(table.scan(row_filter=where.expression()).plan_files()))
    txn.attempt.reads.append(Read(A, found, (), where=where, conditional=conditional))
    return found


def removes(txn: Txn, where: Where) -> None:
    """Remove the rows of A that match."""
    there = reads(txn, where, conditional=True)
    txn.catalog.load_table(A).delete(where.expression())
    txn._did(A, "overwrite", frozenset(), there)


def added(stage: Stage) -> None:
    """A row comes to what was read."""
    one, other = stage.begin(stage.handle()), stage.begin(stage.handle())
    reads(one, ALL_ROWS)
    one.append(B)
    other.append(A)
    other.commit()
    one.commit()


def removed(stage: Stage) -> None:
    """All rows leave of what was read, with their file."""
    one, other = stage.begin(stage.handle()), stage.begin(stage.handle())
    reads(one, ALL_ROWS)
    one.append(B)
    removes(other, ALL_ROWS)
    other.commit()
    one.commit()


def compacted(stage: Stage) -> None:
    """What is rewritten without a row has been compacted: its other rows would be there twice."""
    before = stage.begin(stage.handle())
    before.append(A)
    before.commit()
    one, other = stage.begin(stage.handle()), stage.begin(stage.handle())
    removes(one, of_key(min(stage.rows(stage.handle(), A))))
    table = other.catalog.load_table(A)
    compact(table, list(table.scan().plan_files()), 7)
    other._did(A, "overwrite")
    other.commit()
    one.commit()


RACES = {
    "added_files_unread": added,
    "removed_files_unread": removed,
    "removed_files_passed_over": compacted,
}


@pytest.mark.parametrize("race", RACES.values())
def test_one_of_two_who_meet_is_refused(stage: Stage, race: Callable[[Stage], None]):
    """Whoever comes second."""
    with pytest.raises(Conflict):
        race(stage)


@pytest.mark.parametrize(("name", "race"), RACES.items())
def test_the_model_sees_what_is_not_refused(stage: Stage, name: str, race: Callable[[Stage], None]):
    """With the protection taken away that refuses it."""
    with without_protection(name), pytest.raises(Violation):
        race(stage)
