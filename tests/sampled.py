"""
Of a test that is marked `sampled`, run one case in three where slow tests are left out.

Its cases take long, and differ in little. `make test-slow` runs them all, as does who names a file.
Of each three it is another one: where three catalogs take turns, each of them has a case.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

SHARE = 3


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the other cases out, as pytest does what `-m` does not name."""
    if config.option.markexpr != "not slow":
        return
    seen: Counter[str] = Counter()
    kept, left_out = [], []
    for item in items:
        is_sampled = item.get_closest_marker("sampled") and not item.get_closest_marker("slow")
        test = item.nodeid.partition("[")[0]
        runs = not is_sampled or is_in(seen[test])
        seen[test] += bool(is_sampled)
        (kept if runs else left_out).append(item)
    config.hook.pytest_deselected(items=left_out)
    items[:] = kept


def is_in(number: int) -> bool:
    """Whether a case runs, of which `number` stand before it."""
    return number % SHARE == number // SHARE % SHARE
