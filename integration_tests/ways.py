"""
Through which front ends a test of one mechanism runs: one of them in `make test`, all when slow.

A test that is about the way itself, about its values, its errors or its transactions, runs through
each of them in `make test`, too.
"""

from __future__ import annotations

import pytest

DRIVERS = ("session", "connect", "thrift")
FRONT_ENDS = ("classic", "connect", "thrift", "spark-sql")


def through(fixture: str, fast: str, ways: tuple[str, ...]) -> pytest.MarkDecorator:
    """Run a test with a fixture through each way, of which all but one are slow."""
    params = [
        pytest.param(way, marks=() if way == fast else pytest.mark.slow, id=way) for way in ways
    ]
    return pytest.mark.parametrize(fixture, params, indirect=True)
