"""Processes of Python that write the same tables at once: every row is accounted for."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest

from benchmarks._processes import prepare, run, unaccounted

if TYPE_CHECKING:
    from pathlib import Path

PROCESSES = 4
TRANSACTIONS = 6


@pytest.mark.sampled
@pytest.mark.parametrize("applies", [("inline",), ("atomic",), ("atomic", "inline")], ids="+".join)
@pytest.mark.parametrize("sharing", ["same", "disjoint"])
@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
def test_every_row_is_accounted_for(kind, sharing, applies, tmp_path: Path, request):
    """No failure besides conflicts, which are retried; each row is there once."""
    uri = f"sqlite:///{tmp_path}/catalog.db?timeout=60"
    if kind == "postgresql":
        uri = request.getfixturevalue("postgresql_database")
    properties = {"type": "sql", "uri": uri, "warehouse": f"file://{tmp_path}/files"}
    shared = ["shop.a", "shop.b", "shop.c"]
    own = [[f"shop.p{number}{letter}" for letter in "ab"] for number in range(PROCESSES)]
    tables_of = [shared] * PROCESSES if sharing == "same" else own
    prepare(properties, sorted({table for tables in tables_of for table in tables}))
    seed = random.randrange(2**32)
    print(f"seed={seed}")
    outcomes = run(properties, tables_of, TRANSACTIONS, seed, applies)
    assert [] == [failure for outcome in outcomes for failure in outcome.failures]
    assert PROCESSES * TRANSACTIONS == sum(len(outcome.committed) for outcome in outcomes)
    assert not unaccounted(properties, outcomes)
