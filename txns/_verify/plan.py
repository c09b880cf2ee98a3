"""What all sessions of a run have in common, and when they run."""

from __future__ import annotations

from dataclasses import dataclass
from multiprocessing import parent_process
from typing import TYPE_CHECKING, Any

from pyiceberg.catalog import load_catalog

from txns._clock import SystemClock
from txns._open import open as open_handle

if TYPE_CHECKING:
    from ctypes import c_longlong
    from multiprocessing.queues import Queue
    from multiprocessing.synchronize import Event

    from pyiceberg.catalog import Catalog

    from txns._handle import Handle

PYTHON, SPARK, BOTH = "python", "spark", "both"
CLIENTS = (PYTHON, SPARK, BOTH)

_LOOK_S = 1
"""How often who waits for the others looks whether somebody leads them still."""


@dataclass(frozen=True)
class Plan:
    """
    What all sessions of a run have in common.

    Attributes:
        catalog: The catalog's name.
        properties: Its properties.
        commit_table: The log.
        tables: By the model's names those in the catalog.
        options: Those of `txns.open` besides.
        level: Of all transactions.
        seconds: How long they run, from when all of them are ready.
        folder: Where they write down what they did.
        seed: Of all that is random.
        clients: Of each session, by its number: `python` or `spark`.
    """

    catalog: str
    properties: dict[str, str]
    commit_table: str
    tables: dict[str, str]
    options: dict[str, Any]
    level: str
    seconds: int
    folder: str
    seed: int
    clients: tuple[str, ...]

    def plain(self) -> Catalog:
        """Open the catalog as an engine does that knows nothing of the protocol."""
        return load_catalog(self.catalog, **self.properties)

    def handle(self) -> Handle:
        """Open the protocol over the catalog."""
        return open_handle(self.plain(), commit_table=self.commit_table, **self.options)

    def of(self, client: str) -> list[int]:
        """Give the numbers of a client's sessions."""
        return [number for number, its in enumerate(self.clients) if its == client]


def clients_of(client: str, sessions: int) -> tuple[str, ...]:
    """Give the client of each session; of `both` every other one is Spark's."""
    if client == BOTH:
        return tuple((PYTHON, SPARK)[number % 2] for number in range(sessions))
    return (client,) * sessions


@dataclass(frozen=True)
class Timing:
    """
    When the processes of a run work.

    Attributes:
        ready: Gets the name of each process that is ready.
        all_ready: Set when all of them are.
        until_ms: When they end, in ms of the machine's monotonic clock; without a lock, which one
            that is killed would keep.
    """

    ready: Queue[str]
    all_ready: Event
    until_ms: c_longlong

    def wait(self, name: str) -> None:
        """Say that a process is ready, and wait for the others."""
        self.ready.cancel_join_thread()  # one that is killed may leave its lock to nobody
        self.ready.put(name)
        while not self.all_ready.wait(_LOOK_S):
            if not _is_led():
                raise SystemExit

    def goes_on(self) -> bool:
        """Whether there is time for more; none is left when the process that leads has died."""
        return SystemClock().elapsed_ms() < self.until_ms.value and _is_led()


def _is_led() -> bool:
    leader = parent_process()
    return leader is None or leader.is_alive()
