"""Whether runs use what mutations replace: to take away what nobody asks proves nothing."""

from __future__ import annotations

import builtins
import inspect
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING, Any
from unittest import mock

from tests.simulation.mutations import MUTATIONS, Instead

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator


@contextmanager
def watched() -> Iterator[set[str]]:
    """
    Run a block as it is, and watch what mutations would replace.

    Yields:
        What has not been used so far, as `owner.name`: it empties while runs go on.
    """
    unused: set[str] = set()
    with ExitStack() as stack:
        for (owner, attribute), names in _replaced().items():
            original = inspect.getattr_static(owner, attribute, getattr(builtins, attribute, None))
            label = f"{owner.__name__}.{attribute}"
            watcher: Any
            if names:
                notes = {name: _note(f"{label}.{name}", unused) for name in names}
                watcher = _Watched(original, notes)
            else:
                watcher = _noting(original, _note(label, unused))
            stack.enter_context(mock.patch.object(owner, attribute, watcher, create=True))
        yield unused


def _replaced() -> dict[tuple[Any, str], set[str]]:
    """Give what mutations replace as (owner, attribute); of a module, which names of it."""
    replaced: dict[tuple[Any, str], set[str]] = {}
    for mutation in MUTATIONS.values():
        for owner, attribute, value in mutation():
            names = replaced.setdefault((owner, attribute), set())
            names.update(value.names if isinstance(value, Instead) else ())
    return replaced


def _note(label: str, unused: set[str]) -> Callable[[], None]:
    unused.add(label)
    return lambda: unused.discard(label)


def _noting(original: Any, note: Callable[[], None]) -> Any:
    """Give what does the same as a function, method, property or class, and tells that it did."""
    if isinstance(original, staticmethod):
        return staticmethod(_noting(original.__func__, note))
    if isinstance(original, property):
        return property(_noting(original.fget, note))

    def noting(*args: Any, **more: Any) -> Any:
        note()
        return original(*args, **more)

    return noting


class _Watched(Instead):
    """A module that tells which of its names are asked for."""

    def __init__(self, module: Any, notes: dict[str, Callable[[], None]]) -> None:
        super().__init__(module)
        self._notes = notes

    def __getattr__(self, name: str) -> Any:
        self._notes.get(name, lambda: None)()
        return super().__getattr__(name)
