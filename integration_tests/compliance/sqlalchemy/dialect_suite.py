"""SQLAlchemy's own dialect suite, inherited."""

from sqlalchemy.testing.suite import *  # noqa: F403  (all of it)
