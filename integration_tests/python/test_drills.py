"""Each drill of docs/operations.md, on the databases that catalogs are kept in."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from integration_tests.drills import DRILLS, Drill, Lake, carry_out

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.sampled


@pytest.mark.parametrize("drill", DRILLS, ids=[each.name.replace(" ", "-") for each in DRILLS])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_a_drill(kind: str, drill: Drill, tmp_path: Path, request):
    """It is told at the first statement, what is gone is named, and no invariant is broken then."""
    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=60"
    if kind == "postgresql":
        uri = request.getfixturevalue("postgresql_database")
    lake = Lake.make(tmp_path, uri, tables=2, transactions=20)
    drilled = carry_out(drill, lake)
    assert drill.told in drilled.told
    assert bool(drill.told) == bool(drilled.told)
    assert drill.lost == drilled.gone == len(drilled.reported)
    assert [] == drilled.violations


@pytest.mark.slow
def test_one_after_the_other(tmp_path: Path):
    """A log that was recovered before is recovered again: its epochs count for themselves."""
    lake = Lake.make(
        tmp_path, f"sqlite:///{tmp_path}/catalog.db?timeout=60", tables=2, transactions=20
    )
    gone = 0
    for drill in DRILLS[2:]:  # a log that was lost leaves one aside, whose files go later
        drilled = carry_out(drill, lake)
        gone += drill.lost
        assert (gone, []) == (drilled.gone, drilled.violations), drill.name
        assert bool(drill.told) == bool(drilled.told), drill.name
