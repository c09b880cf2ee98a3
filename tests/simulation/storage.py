"""
Storage in memory: files by location, with every opening and closing a step.

Metadata files are kept as parsed objects: reading JSON again and again would be most of
a run's time. The final audit writes and reads them once.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING

from pyiceberg.io import FileIO, InputFile, OutputFile

from tests.simulation.scheduler import Errors, World

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table.metadata import TableMetadata

    from tests.simulation.rights import Rights

ERRORS = Errors(
    failed=lambda label: OSError(f"simulated: storage failed at {label}"),
    lost=lambda label: OSError(f"simulated: the answer of storage was lost at {label}"),
    called_lost=lambda label: OSError(f"simulated: storage called it failed at {label}"),
    refused=lambda _kind, label, _rng: PermissionError(f"simulated: storage refused {label}"),
)


class _Files(dict[str, "bytes | TableMetadata"]):
    """Files by location, and when each was written."""

    def __init__(self, world: World) -> None:
        super().__init__()
        self._world = world
        self.written_ms: dict[str, int] = {}
        self.before_write: Callable[[str], None] = lambda _location: None

    def __setitem__(self, location: str, content: bytes | TableMetadata) -> None:
        self.before_write(location)
        super().__setitem__(location, content)
        self.written_ms[location] = self._world.now_ms


class Storage:
    """All files of a world, and data files that nobody may read any more."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.files = _Files(world)
        self.expired_data: set[str] = set()
        self.before_delete: Callable[[str], None] = lambda _location: None

    def holds(self, location: str) -> bool:
        """Whether a file is there; data files are names, which an expiry takes."""
        is_name = location.endswith(".parquet") and location not in self.expired_data
        return is_name or location in self.files

    def bytes_of(self, location: str) -> bytes:
        """Give a file's bytes, without a step."""
        content = self.files.get(location)
        if content is None:
            raise FileNotFoundError(location)
        return content if isinstance(content, bytes) else content.model_dump_json().encode()

    def below(self, location: str) -> dict[str, int]:
        """Give the files below a location, and when each was written in ms, without a step."""
        return {
            path: self.files.written_ms[path]
            for path in sorted(self.files)
            if path.startswith(f"{location}/")
        }

    def delete(self, location: str) -> None:
        """Remove a file, without a step."""
        if not self.holds(location):
            raise FileNotFoundError(location)
        self.before_delete(location)
        if location in self.files:
            del self.files[location]
        else:
            self.expired_data.add(location)


class SimulatedFileIO(FileIO):
    """The storage as pyiceberg sees it."""

    def __init__(self, storage: Storage, rights: Rights | None = None) -> None:
        super().__init__({})
        self.storage = storage
        self._rights = rights

    def new_input(self, location: str) -> InputFile:
        return _Input(self.storage, location)

    def new_output(self, location: str) -> OutputFile:
        self._check(location)
        return _Output(self.storage, location)

    def delete(self, location: str | InputFile | OutputFile) -> None:
        name = location if isinstance(location, str) else location.location
        self._check(name)
        self.storage.world.io("delete", name, lambda: self.storage.delete(name), ERRORS)

    def _check(self, location: str) -> None:
        if self._rights and not self._rights.may_write(location):
            raise PermissionError(f"simulated: no right to write {location}")

    def __deepcopy__(self, _memo: object) -> SimulatedFileIO:
        return self


class _Input(InputFile):
    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        return len(self._storage.bytes_of(self.location))

    def exists(self) -> bool:
        world = self._storage.world
        return world.io("read", self.location, lambda: self._storage.holds(self.location), ERRORS)

    def open(self, seekable: bool = True) -> io.BytesIO:  # noqa: ARG002, FBT001, FBT002 -- pyiceberg's
        return self._storage.world.io(
            "read",
            self.location,
            lambda: io.BytesIO(self._storage.bytes_of(self.location)),
            ERRORS,
        )


class _Output(OutputFile):
    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__(location)
        self._storage = storage

    def __len__(self) -> int:
        return len(self._storage.bytes_of(self.location))

    def exists(self) -> bool:
        return self.to_input_file().exists()

    def to_input_file(self) -> InputFile:
        return _Input(self._storage, self.location)

    def create(self, overwrite: bool = False) -> _Stream:  # noqa: FBT001, FBT002 -- pyiceberg's
        if not overwrite and self.location in self._storage.files:
            raise FileExistsError(self.location)
        return _Stream(self._storage, self.location)


class _Stream(io.BytesIO):
    """A file in the making: it exists from its closing on, all or nothing."""

    def __init__(self, storage: Storage, location: str) -> None:
        super().__init__()
        self._storage = storage
        self._location = location

    def close(self) -> None:
        if self.closed:
            return
        content = self.getvalue()
        super().close()
        storage, location = self._storage, self._location
        storage.world.io(
            "write", location, lambda: storage.files.__setitem__(location, content), ERRORS
        )

    def __exit__(self, kind: object, error: object, trace: object) -> None:
        if kind is not None:
            super().close()  # what failed half way leaves no file
        self.close()

    def __del__(self) -> None:
        """Leave a stream that nobody closed without a file."""
        if not self.closed:
            super().close()
