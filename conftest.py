"""What every run of pytest in this repository has: see tests/slowest.py."""

from tests.slowest import pytest_runtest_logreport, pytest_terminal_summary

__all__ = ["pytest_runtest_logreport", "pytest_terminal_summary"]
