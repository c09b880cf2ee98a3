"""
Alembic's own suite for dialects, inherited.

Imports: nothing of the project. Used by: suites, as tests.
"""

from alembic.testing.suite import *  # noqa: F403  (all of it)
