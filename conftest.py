"""What every run of pytest in this repository has: see tests/slowest.py and tests/sampled.py."""

from tests.sampled import pytest_collection_modifyitems
from tests.slowest import pytest_runtest_logreport, pytest_terminal_summary

__all__ = [
    "pytest_collection_modifyitems",
    "pytest_runtest_logreport",
    "pytest_terminal_summary",
]
