"""Alembic's own suite for dialects, inherited."""

from alembic.testing.suite import *  # noqa: F403  (all of it)
