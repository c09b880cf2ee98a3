"""A few thousand hostile inputs for both cores; `make fuzz` has as many as one likes."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from typing import Any

import pytest

from tests.fuzz import at_limits, lake
from tests.fuzz.inputs import UUID, hostile
from tests.fuzz.judges import JavaJudge, PythonJudge
from tests.fuzz.run import GREATEST, SMALL, Run


def test_both_cores_say_the_same_of_hostile_bytes() -> None:
    """Each input is a value, *CorruptLog* or *Unsupported*, or what the table makes of it."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed={seed}")
    busy = replace(SMALL, cpu_ms=5 * SMALL.cpu_ms)  # `make fuzz` measures, with nothing beside it
    run, java = Run(busy), JavaJudge(heap_mib=256)
    run.go((hostile(seed, number) for number in range(2_000)), [PythonJudge(), java])
    java.end()
    assert not run.told, f"seed={seed}"
    assert {"VALUE", "CORRUPT_LOG", "UNSUPPORTED"} <= {word for _, word in run.verdicts}


_MARK = {
    "txns.applied": "1767265380007",
    "txns.commit-table": "txns.commits",
    "txns.table-uuid": UUID,
}
_TABLE = {
    "format-version": 2,
    "table-uuid": UUID,
    "location": "file:///lake/shop/a",
    "last-sequence-number": 0,
    "last-updated-ms": 1767265380007,
    "last-column-id": 1,
    "current-schema-id": 0,
    "schemas": [
        {
            "type": "struct",
            "schema-id": 0,
            "fields": [{"id": 1, "name": "id", "required": False, "type": "long"}],
        }
    ],
    "default-spec-id": 0,
    "partition-specs": [{"spec-id": 0, "fields": []}],
    "last-partition-id": 999,
    "default-sort-order-id": 0,
    "sort-orders": [{"order-id": 0, "fields": []}],
    "properties": _MARK,
}


@pytest.mark.parametrize(
    ("changed", "verdict"),
    [
        ({}, "VALUE"),
        ({"table-uuid": UUID.upper()}, "VALUE"),  # somebody writes uuids in capital letters
        ({"properties": _MARK | {"txns.commit-table": "\0txns.commits"}}, "CORRUPT_LOG"),
    ],
)
def test_marks_that_were_told_otherwise(changed: dict[str, Any], verdict: str) -> None:
    """Found by inputs of a seed, and said the same of by both cores since."""
    run, java = Run(SMALL), JavaJudge(heap_mib=256)
    metadata = json.dumps(_TABLE | changed)
    run.go([{"n": 0, "kind": "mark", "in": {"metadata": metadata}}], [PythonJudge(), java])
    java.end()
    assert not run.told
    assert [("mark", verdict)] == list(run.verdicts)


@pytest.mark.slow
def test_both_cores_say_the_same_at_the_limits() -> None:
    """JSON of up to 64 MiB is read or refused within half a minute and 2 GiB."""
    run, java = Run(GREATEST), JavaJudge(heap_mib=2_048)
    run.go(at_limits.inputs(), [PythonJudge(), java])
    java.end()
    assert not run.told
    assert {("payload", "VALUE"), ("payload", "CORRUPT_LOG")} == set(run.verdicts)


def test_hostile_records_touch_nothing_outside_the_care(tmp_path) -> None:
    """Whoever may write the commit table alone makes nobody change what is not under care."""
    seed = random.SystemRandom().randrange(10**6)
    print(f"seed={seed}")
    report = lake.run(tmp_path / "lake", seed, 25)
    assert not report.told, f"seed={seed}"
    assert report.opened > 0


@pytest.mark.parametrize("number", range(3))
def test_an_input_is_the_same_again(number: int) -> None:
    """The seed and the number are all that it is made of."""
    assert hostile(1, number) == hostile(1, number) != hostile(2, number)
