"""`txns verify-isolation` without one protection sees what it costs: see tests/unprotected.py."""

from __future__ import annotations

import pytest

from tests.simulation.mutations import MUTATIONS
from tests.unprotected import SEEN, first_seen, verdict_without


def test_what_is_taken_away_is_there():
    """By the names that the simulation has for it."""
    assert set(SEEN) <= set(MUTATIONS)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["read_check_dropped", "added_files_unread"])
def test_what_is_missing_is_seen(tmp_path, name):
    """Within a run of half a minute; how soon is in docs/simulation.md."""
    verdict = verdict_without(name, tmp_path, "auto", 30, 5)
    number, _ = first_seen(verdict)
    assert number
