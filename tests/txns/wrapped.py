"""A catalog that others come between."""

from __future__ import annotations

COMMITS = ("txns", "commits")


class Wrapped:
    """
    A catalog in which something else happens around the calls for the commit table.

    It has no rows to lock, whatever it wraps: others may come between a load and the swap.
    """

    def __init__(self, catalog, swap=None, load=None):
        self.catalog, self.swap, self.load = catalog, swap, load

    def __getattr__(self, name):
        return getattr(self.catalog, name)

    def load_table(self, identifier):
        name = self.catalog.identifier_to_tuple(identifier)
        real = lambda: self.catalog.load_table(identifier)  # noqa: E731 -- a call to be made
        return self.load(real) if self.load and name == COMMITS else real()

    def commit_table(self, table, requirements, updates):
        real = lambda: self.catalog.commit_table(table, requirements, updates)  # noqa: E731
        return self.swap(real) if self.swap and table.name() == COMMITS else real()
