"""
Write down which tests SQLite passes, by the projects' own requirements of it.

    make compliance-sqlalchemy-lists

Run it when SQLAlchemy or Alembic has a new version; the lists are committed.
"""

from __future__ import annotations

import sys

from integration_tests.compliance.sqlalchemy import suites


def main() -> None:
    """Write a list for each suite that the arguments name."""
    for name in sys.argv[1:]:
        suite = suites.suite(name)
        found = suites.run(suite, "sqlite://", suite.theirs)
        passed = sorted(test for test, outcome in found.items() if outcome.kind == "passed")
        target = suite.list_file()
        target.parent.mkdir(exist_ok=True)
        target.write_text("".join(f"{test}\n" for test in passed), "utf-8")
        print(f"{target.relative_to(suites.HERE)}: {len(passed)} of {len(found)}")


if __name__ == "__main__":
    main()
