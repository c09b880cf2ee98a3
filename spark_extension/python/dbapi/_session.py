"""What a connection needs of a Spark session, however it is reached."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    import pyarrow as pa


class Answer(NamedTuple):
    """
    What a statement returned.

    Attributes:
        columns: Names and types, and for an eager statement the rows.
        is_command: Whether it was no query; its rows say what it did.
        rest: The batches that are still to come, of a streamed query; None for an eager one.
    """

    columns: pa.Table
    is_command: bool
    rest: Iterator[pa.Table] | None = None


class Session(Protocol):
    """
    One Spark session that belongs to one connection.

    Every method raises Spark's own exceptions; the connection translates them.
    """

    #: How SQLAlchemy and the documentation call this way: session, connect or thrift.
    driver: str

    def run(self, sql: str, parameters: Sequence[Any]) -> Answer:
        """Run a statement to its end and return all its rows."""

    def stream(self, sql: str, parameters: Sequence[Any], batch_rows: int) -> Answer:
        """Run a statement whose rows come in batches, as they are asked for."""

    def upload(self, name: str, rows: pa.Table) -> bool:
        """Make rows a temporary view of the session; False where that cannot be done."""

    def has_table(self, name: str) -> bool | None:
        """Tell whether a table or temporary view is there; None on Thrift, which cannot tell."""

    def use(self, catalog: str, schema: str) -> bool:
        """Make them the current ones without a statement; False if that cannot be done."""

    def cancel(self) -> None:
        """Stop what the session runs; called by another thread."""

    def close(self) -> None:
        """Give the session back."""
