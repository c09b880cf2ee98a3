"""
SQLAlchemy's own dialect suite, inherited.

Imports: nothing of the project. Used by: suites, as tests.
"""

from sqlalchemy.testing.suite import *  # noqa: F403  (all of it)
