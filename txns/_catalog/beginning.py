"""
What a transaction begins with: the head of the log, and beside it tables that it is likely to read.

Catalogs that can move several rows at once tell several at once, too.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from itertools import chain, islice
from typing import TYPE_CHECKING

from txns._stage.read_set import ReadSet

if TYPE_CHECKING:
    from txns._iceberg.locked_rows import Rows
    from txns._log.commit_log import CommitLog
    from txns._log.head import Head

_TABLES = 64
"""How many tables are asked for at most beside the log."""


@dataclass(slots=True)
class Beginnings:
    """
    Loads what the transactions of one handle begin with. Threads may share it.

    Who runs a program's transaction again, or its next one, reads the tables of the one before:
    each would be a question more. What is not read after all has cost a row of an answer.
    """

    log: CommitLog
    rows: Rows | None
    _before: ReadSet = field(default_factory=ReadSet)

    def head(self) -> Head:
        """Load the head; raises what `CommitLog.load` does."""
        # Copied at once each: another thread's transaction may be going on.
        known = [list(each) for each in self._before.names.copy().values()]
        usual = list(islice(chain.from_iterable(known), _TABLES))
        if self.rows is None or not usual:
            return self.log.load()
        beside = self.rows.looked_at([self.log.identifier, *usual])
        try:
            head = self.log.load(beside)
            if head.table is None or not beside.still_names(self.log.identifier, head.table):
                return head  # a newer one, with which these tables are not to be read
        except FileNotFoundError:  # the log has moved on, and what it was is gone
            return self.log.load()
        return replace(head, beside=beside)

    def follow(self, reads: ReadSet) -> None:
        """Take the tables that a transaction will have read for those of the next one."""
        self._before = reads
