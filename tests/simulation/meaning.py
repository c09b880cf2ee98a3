"""What a statement means, and what it has seen: noted for the judges, around what it does."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tests.simulation.attempts import Attempt, Identifier, Operation, Read, folded, show
from tests.simulation.where import ALL, Where

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.simulation.rows import Rows
    from tests.simulation.worker import Worker


def saw(
    worker: Worker,
    attempt: Attempt,
    name: Identifier,
    rows: Rows | None,
    columns: frozenset[str] | None = None,
    *,
    where: Where = ALL,
    conditional: bool = False,
) -> Rows | None:
    """
    Judge what was seen of a table, and keep it: when the transaction commits it is to hold still.

    Args:
        worker: Whose process has looked.
        attempt: In which transaction.
        name: At which table.
        rows: Those that match the filter; None where there is no table.
        columns: What was seen of its columns, if it was looked at.
        where: The filter.
        conditional: Whether something is written by what was seen, if that is nothing.
    """
    attempt.tell(f"finds {show(rows)} in {'.'.join(folded(name))}, {where}")
    if attempt.isolation == "autocommit" or not worker.lake.judges(worker.process):
        return rows
    seen = Read(folded(name), rows, tuple(attempt.operations), columns, where, conditional)
    worker.lake.observer.history.judge_read(attempt, seen)
    attempt.reads.append(seen)
    return rows


@contextmanager
def meaning(attempt: Attempt, operation: Operation) -> Iterator[None]:
    """
    Record what a statement means before it runs.

    A statement of a transaction that fails has done nothing; one of its own may have
    committed all the same.
    """
    operation = replace(operation, table=folded(operation.table))
    attempt.touched.add(operation.table)
    attempt.tell(f"means {operation}")
    attempt.operations.append(operation)
    try:
        yield
    except Exception:
        if attempt.isolation != "autocommit":
            attempt.operations.remove(operation)
        raise
