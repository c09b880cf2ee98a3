"""
What is asked of a catalog, and what is read and written: exact numbers, no clock.

Everything goes through the real catalog and the real files; of a process, since pyiceberg makes
the FileIO by its name.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar, Self

from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.io import InputFile, OutputFile
from pyiceberg.io.pyarrow import PyArrowFileIO
from sqlalchemy import event

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from types import TracebackType

    from pyiceberg.io import InputStream, OutputStream

_AT_WORK = "SELECT 1"
"""With it who is slow says that it is at work."""

_ENDINGS = {".metadata.json": "metadata", ".parquet": "data", "-m0.avro": "manifest"}


def kind(path: str) -> str:
    """Say what a file is, by its name: metadata, data, a manifest, or a list of these."""
    return next((kind for end, kind in _ENDINGS.items() if path.endswith(end)), "list")


class CountingIO(PyArrowFileIO):
    """The real one, which remembers what was read and written, by whomever in the process."""

    read: ClassVar[list[str]] = []
    """Files that were opened to be read, or asked for."""
    written: ClassVar[list[str]] = []
    """Files that were made."""
    bytes_read: ClassVar[list[tuple[str, int]]] = []
    """By file, bytes that one call gave."""
    bytes_written: ClassVar[list[tuple[str, int]]] = []
    """By file, bytes that one call took."""

    def new_input(self, location: str) -> InputFile:
        self.read.append(location)
        return _CountedInput(super().new_input(location))

    def new_output(self, location: str) -> OutputFile:
        self.written.append(location)
        return _CountedOutput(super().new_output(location))

    @classmethod
    def clear(cls) -> None:
        """Forget what was read and written."""
        for seen in (cls.read, cls.written, cls.bytes_read, cls.bytes_written):
            seen.clear()


def counted_catalog(properties: Mapping[str, Any]) -> tuple[SqlCatalog, list[str]]:
    """
    Give a catalog as a process of its own has it, and the statements that it sends from now on.

    Its files go through `CountingIO`.
    """
    io = f"{CountingIO.__module__}.{CountingIO.__name__}"
    catalog = SqlCatalog("lake", **{**properties, "py-io-impl": io})
    statements: list[str] = []

    def note(_connection, _cursor, statement, *_more) -> None:
        if statement != _AT_WORK:
            statements.append(statement)

    event.listen(catalog.engine, "before_cursor_execute", note)
    return catalog, statements


class _CountedInput(InputFile):
    def __init__(self, file: InputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def open(self, seekable: bool = True) -> InputStream:
        seen = CountingIO.bytes_read
        return _CountedStream(
            self._file.open(seekable), lambda count: seen.append((self.location, count))
        )


class _CountedOutput(OutputFile):
    def __init__(self, file: OutputFile) -> None:
        super().__init__(file.location)
        self._file = file

    def __len__(self) -> int:
        return len(self._file)

    def exists(self) -> bool:
        return self._file.exists()

    def to_input_file(self) -> InputFile:
        return _CountedInput(self._file.to_input_file())

    def create(self, overwrite: bool = False) -> OutputStream:
        seen = CountingIO.bytes_written
        return _CountedStream(
            self._file.create(overwrite), lambda count: seen.append((self.location, count))
        )


class _CountedStream:
    """What it does not name, as reading into a buffer, nobody can do past it."""

    def __init__(self, stream: Any, count: Callable[[int], None]) -> None:
        self._stream = stream
        self._count = count

    def read(self, size: int = -1) -> bytes:
        found: bytes = self._stream.read(None if size < 0 else size)
        self._count(len(found))
        return found

    def write(self, data: Any) -> int:
        self._count(memoryview(data).nbytes)
        return self._stream.write(data)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def flush(self) -> None:
        self._stream.flush()

    def readable(self) -> bool:
        return self._stream.readable()

    def writable(self) -> bool:
        return self._stream.writable()

    def seekable(self) -> bool:
        return self._stream.seekable()

    @property
    def closed(self) -> bool:
        return self._stream.closed

    def close(self) -> None:
        self._stream.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()
