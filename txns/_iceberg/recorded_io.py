"""
A FileIO that remembers what was created through it.

So a rollback deletes what the transaction wrote, and nothing that it was given
(`add_files`) or that was there before.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyiceberg.io import FileIO, InputFile, OutputFile

from txns._logger import logger

if TYPE_CHECKING:
    from collections.abc import Iterable

_LOG = logger(__name__)


class RecordedIO(FileIO):
    """The files of one table inside a transaction."""

    def __init__(self, io: FileIO) -> None:
        super().__init__(io.properties)
        self.inner = io
        self.created: list[str] = []

    def new_input(self, location: str) -> InputFile:
        """Open a file to read."""
        return self.inner.new_input(location)

    def new_output(self, location: str) -> OutputFile:
        """Open a file to write, and remember it."""
        self.created.append(location)
        return self.inner.new_output(location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        """Delete a file."""
        self.inner.delete(location)

    def delete_created(self) -> None:
        """Delete what was created; one that stays is reported."""
        self.delete_of(list(self.created))

    def delete_of(self, locations: Iterable[str]) -> None:
        """Delete those of some files that were created here; one that stays is reported."""
        created = set(self.created)
        for location in locations:
            if location not in created:
                continue
            self.created.remove(location)
            try:
                self.inner.delete(location)
            except FileNotFoundError:
                continue  # its producer has cleaned up
            except Exception:  # noqa: BLE001 -- a file that stays harms nobody
                _LOG.warning("a staged file stays: %s", location, exc_info=True)
