"""
A simulated process of a user: it opens a handle and works off its actions, one by one.

When it dies in the middle of one, another process takes over, with a handle of its own;
a transaction with an id of its own is then tried again under that id.
"""

from __future__ import annotations

import random
import traceback
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from pyiceberg.exceptions import (
    BadRequestError,
    CommitFailedException,
    CommitStateUnknownException,
    ForbiddenError,
    NoSuchNamespaceError,
    NoSuchTableError,
    ServiceUnavailableError,
    TableAlreadyExistsError,
    TooManyRequestsError,
    UnauthorizedError,
    ValidationException,
)

import txns
from tests.simulation import coverage, jvm, refusals
from tests.simulation.determinism import SimulatedClock
from tests.simulation.disaster import marked_late
from tests.simulation.java_handle import JavaEngine, JavaHandle, JavaTable
from tests.simulation.late_heads import GRACE_MS
from tests.simulation.observer import COMMIT_TABLE
from tests.simulation.rows import held
from tests.simulation.scheduler import Process, ProcessDied, Violation, World
from tests.simulation.settings import Switch
from txns._iceberg.manifests import WRITABLE_FORMAT
from txns._identifier import dotted_name
from txns.errors import CorruptLog, TxnsError

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyiceberg.table import Table

    from tests.simulation.attempts import Attempt, Identifier
    from tests.simulation.backup import Backup
    from tests.simulation.catalogs import SimulatedCatalog
    from tests.simulation.guard import Guard
    from tests.simulation.observer import Observer
    from tests.simulation.rows import Rows

EXPECTED = (
    TxnsError,
    OSError,
    CommitFailedException,
    CommitStateUnknownException,
    ServiceUnavailableError,
    BadRequestError,
    UnauthorizedError,
    ForbiddenError,
    TooManyRequestsError,
    NoSuchTableError,
    NoSuchNamespaceError,
    TableAlreadyExistsError,
    ValidationException,
)
"""What an action may end with; anything else is a defect."""

_REPEATS_MAX = 3


@dataclass
class Lake:
    """
    What all processes of a world share.

    Attributes:
        options: Options of the handles, as `txns.open` calls them.
        server: Whether its catalog validates on its side.
        tables: Names of tables that are registered from the start.
        creatable: Names that transactions create and drop.
        opening: How many processes open a handle just now.
        spare: A name that tables are renamed to, and the name of a table without care.
        has_java: Whether some of its users have Java's core, and strangers are engines on the JVM.
        is_javas: Whether all of its users have Java's core.
        mutation: The protection that Java's core is without.
        has_other_log: Whether another commit table has tables of its own in the catalog.
        others_meant: Rows that its transactions were to bring.
        others_acknowledged: Those of which it was said that they are there.
        workers: All of them.
        halted: Whether an administrator has users begin no process.
        backup: The backup that he has taken last.
        guard: What judges instead of the model of history, where records are forged.
        forged: The snapshots of the commit table that are forgeries.
        voided: Until when a record stood that nobody could read, in ms, by its snapshot.
    """

    world: World
    observer: Observer
    connect: Callable[..., SimulatedCatalog]
    options: dict[str, Any] = field(default_factory=dict)
    server: bool = False
    namespace: str = "lake"
    tables: tuple[Identifier, ...] = ()
    creatable: tuple[Identifier, ...] = ()
    spare: tuple[Identifier, ...] = ()
    rows_made: int = 0
    opening: int = 0
    has_java: bool = False
    is_javas: bool = False
    mutation: str | None = None
    has_other_log: bool = False
    others_meant: set[int] = field(default_factory=set)
    others_acknowledged: set[int] = field(default_factory=set)
    workers: list[Worker] = field(default_factory=list)
    halted: bool = False
    backup: Backup | None = None
    guard: Guard | None = None
    forged: list[int] = field(default_factory=list)
    voided: dict[int, int] = field(default_factory=dict)

    def new_row(self) -> int:
        """Give a row that nobody has."""
        self.rows_made += 1
        return self.rows_made

    def judges(self, process: Process) -> bool:
        """Whether what a process sees is held against the model: not what a recovery is behind."""
        sound = self.observer.disaster is None and self.guard is None
        return sound and process.epoch == self.world.epoch

    def open(self, **own: Any) -> Any:
        """Open a handle as a process of its own does; with options of its own, if it has any."""
        options = {**self.options, **own}
        catalog = self.connect()
        catalog.queues = _queues(options)
        return txns.open(catalog, clock=SimulatedClock(self.world), **options)

    def open_java(self, **own: Any) -> JavaHandle:
        """Open one of Java's core, as a process of its own does."""
        options = {**self.options, **own}
        queues = _queues(options)
        return JavaHandle(
            jvm.running(self.mutation),
            self.world,
            self.connect(),
            options,
            server=self.server,
            queues=queues,
            payloads_in_files=self.world.faults.settings.has(Switch.PAYLOAD_FILES),
        )

    def open_engine(self) -> JavaEngine:
        """Start an engine on the JVM that knows nothing of the protocol."""
        own_jvm = jvm.running(self.mutation)
        return JavaEngine(own_jvm, self.world, self.connect(), server=self.server)

    def has_equality_deletes(self, table: Table) -> bool:
        """Whether pyiceberg refuses to scan a table, as a process has loaded it."""
        main = table.metadata.current_snapshot()  # of the table itself it would be a read
        written = self.has_java and self.world.faults.settings.has(Switch.EQUALITY_DELETES)
        if (
            not written
            or main is None
            or main.manifest_list not in self.observer.registry.storage.files
        ):
            return False
        return self.observer.contents.has_equality_deletes(main)

    def is_pythons(self, table: Table) -> bool:
        """Whether pyiceberg can read and write a table."""
        is_newest = table.metadata.format_version > WRITABLE_FORMAT
        return not (is_newest or self.has_equality_deletes(table))

    def rows(self, table: Any) -> Rows:
        """Give the rows of a table, past pyiceberg where that refuses to read it."""
        if isinstance(table, JavaTable) or not self.has_equality_deletes(table):
            return held(table.scan().plan_files())
        return self.observer.contents.rows(table.current_snapshot())


def _queues(options: dict[str, Any]) -> bool:
    """Take out of options whether who has them looks at rows before it moves the log."""
    return options.pop("queues", False) or options.get("apply") == "atomic"


_RACES_OF_PYICEBERG = ("Cannot add snapshot with sequence number", "Cannot find source column")
"""What plain programs meet: its catalogs lay updates over whatever a table is by then."""


@dataclass
class Worker:
    """
    One user and its processes.

    Attributes:
        actions: What is to be done, as (key, action).
        java: Whether its processes have Java's core.
        options: Options of its handles, over those of the lake.
        again: The transaction that has to be tried again under its id.
        lost: The try that has lost, after which the next one is to begin.
        opens_again: Whether an error has told its process to open the catalog again.
        opened_epoch: How many recoveries there had been when it opened its handle.
    """

    lake: Lake
    name: str
    actions: list[tuple[str, Callable[[Worker], None]]]
    java: bool = False
    options: dict[str, Any] = field(default_factory=dict)
    skew_ms: int = 0
    stranger: bool = False
    deaths: int = 0
    repeats: int = 0
    handle: Any = None
    again: Attempt | None = None
    lost: Any = None
    opens_again: bool = False
    opened_epoch: int = 0

    def start(self) -> None:
        """Let a new process work off what is left."""
        self.handle = self.lost = None
        self.process = Process(
            f"{self.name}/{self.deaths}", skew_ms=self.skew_ms, stranger=self.stranger
        )
        self.lake.world.spawn(self.process, self._live)

    def all_of_it(self) -> list[Process]:
        """Give its process, and the threads of that."""
        threads = f"{self.process.name}/"
        return [
            each
            for each in self.lake.world.processes
            if not each.dead and (each is self.process or each.name.startswith(threads))
        ]

    def end(self) -> None:
        """Let its process do nothing any more, whatever it is at; another one takes over."""
        for each in self.all_of_it():
            each.dead = True
        self.deaths += 1
        self.start()

    def _live(self) -> None:
        if self.lake.halted and not self.stranger:
            self.lake.world.wait_for(lambda: not self.lake.halted)
        self.process.epoch = self.opened_epoch = self.lake.world.epoch
        try:
            while self.actions:
                self._act()
        except ProcessDied:
            if not self.lake.world.closed:
                self.deaths += 1
                self.start()
            raise

    def _act(self) -> None:
        key, action = self.actions[0]
        repeat = f"#{self.repeats}" if self.repeats else ""
        world = self.lake.world
        if self.has(Switch.CLOCKS) and not self.stranger:
            self.process.skew_ms = self._jumped(key + repeat)
        self.process.begin_action(world.seed, key + repeat, world.now_ms)
        self.process.began_above = self.lake.observer.history.upper
        self.process.attempt = None
        self.process.repairing = ""
        self.process.epoch = self.opened_epoch  # a command line of its own may have been newer
        if self.opens_again and not self.lake.observer.disaster:
            self.opens_again, self.handle, self.lost = False, None, None
            self.process.epoch = self.opened_epoch = world.epoch
        world.occurred[coverage.action(key)] += 1
        before = self.deaths
        self.repeats += 1
        self.perform(key, action)
        self.process.attempt = None
        assert before == self.deaths
        is_over = self.repeats > _REPEATS_MAX and self.lost is None
        if (self.again is None and self.lost is None) or is_over:
            self.actions.pop(0)
            self.again = None
            self.repeats = 0

    def _jumped(self, key: str) -> int:
        """Give what the process's clock is ahead during an action."""
        world = self.lake.world
        most = world.faults.settings.skew_ms_max
        rng = random.Random(f"{world.seed}/{key}/skew")
        return rng.choice((0, 0, most, -most, most // 2, rng.randint(-most, most)))

    def perform(self, key: str, action: Callable[[Worker], None]) -> None:
        """Do something that may end with any error that a user has to expect."""
        try:
            if not self.stranger and self.handle is None:
                self.handle = self._open()
            action(self)
        except CorruptLog as error:
            explained = self._stood_still(error) or self._of_another_log(error)
            if self.lake.judges(self.process) and not explained:
                raise Violation("corrupt", f"{key}: {error}") from error
            self._told(error)
        except FileNotFoundError as error:
            self._judge_missing(key, error)
            self._ended(error)
        except EXPECTED as error:
            self._ended(error)
        except Exception as error:
            if self.stranger and str(error).startswith(_RACES_OF_PYICEBERG):
                self.lake.world.note(f"lost a race: {error}")
                return
            trace = traceback.format_exc()
            raise Violation("crash", f"{key}: {type(error).__name__}: {error}\n{trace}") from error

    def _stood_still(self, error: CorruptLog) -> bool:
        """Whether an error names a record that was made void after the process had loaded it."""
        began_ms = self.process.began_ms - self.process.skew_ms
        voided = self.lake.voided.items()
        return any(str(each) in str(error) and began_ms <= until_ms for each, until_ms in voided)

    def _of_another_log(self, error: CorruptLog) -> bool:
        """
        Whether an error names a table that shows what this log has not, or of an earlier epoch.

        Somebody's mark has arrived after a recovery, or strangers have given a table back, with its
        mark, that another log had meanwhile.
        """
        observer = self.lake.observer
        names = {*marked_late(observer), *observer.history.anothers}
        return any(f"`{dotted_name(each)}`" in str(error) for each in names)

    def _judge_missing(self, key: str, error: FileNotFoundError) -> None:
        """Judge that a file was not there: those of the log are, for who has not stood still."""
        if self.has(Switch.CLOCKS) or not self.lake.judges(self.process):
            return  # ages are by them
        world, process = self.lake.world, self.process
        since_ms = world.now_ms - (process.began_ms - process.skew_ms)
        if f"/{'/'.join(COMMIT_TABLE)}/" in str(error) and since_ms < GRACE_MS:
            raise Violation("files", f"{key}: gone under a reader: {error}") from error

    def _ended(self, error: Exception) -> None:
        """Note an error that a user has to expect, if there was reason for it."""
        world = self.lake.world
        if not self.lake.judges(self.process):
            self._told(error)
            return
        refusals.judge(self, error)
        world.occurred[coverage.told(error)] += 1
        world.note(f"ended {type(error).__name__} {error}")
        world.sleep(max(0, self.process.cut_off_until - world.now_ms))

    def _told(self, error: Exception) -> None:
        """Stop until a lake is recovered, of which an error says that it has to be."""
        world, disaster = self.lake.world, self.lake.observer.disaster
        world.note(f"is told {type(error).__name__} {error}")
        if not isinstance(error, TxnsError):
            world.sleep(max(0, self.process.cut_off_until - world.now_ms))
            return
        self.opens_again = True
        if disaster is not None:
            world.occurred[coverage.told(error)] += 1
            disaster.told += 1
            world.wait_for(lambda: self.lake.observer.disaster is None)

    def _open(self) -> Any:
        """Open a handle of a new process."""
        opened = self._opened(self.lake.open_java if self.java else self.lake.open, self.options)
        self.process.epoch = self.opened_epoch = self.lake.world.epoch
        return opened

    def command_line(self) -> Any:
        """Give the handle of what Python's core alone can do; beside Java it applies nothing."""
        if not self.java:
            return self.handle
        leaves_all = {**self.options, "apply": "next", "tidy_after": 1_000_000}
        opened = self._opened(self.lake.open, leaves_all)
        self.process.epoch = self.lake.world.epoch  # until its next action: it is a new process
        return opened

    def _opened(self, opens: Callable[..., Any], options: dict[str, Any]) -> Any:
        """Open a handle, not while the commit table is hidden: a new process would make another."""
        lake = self.lake
        observer = lake.observer
        lake.world.wait_for(
            lambda: COMMIT_TABLE in observer.registry.pointers or observer.disaster is not None
        )
        lake.opening += 1
        try:
            return opens(**options)
        finally:
            lake.opening -= 1

    def has(self, switch: Switch) -> bool:
        """Whether something is on in this run, for this user."""
        return self.lake.world.faults.settings.has(switch)

    def writes(self, table: Any) -> bool:
        """Whether a table is one that its core can write rows of."""
        return self.java or self.lake.is_pythons(table)

    def spelled(self, name: Identifier) -> Identifier:
        """Give a name in the letters of the action, where they make no difference."""
        if not self.has(Switch.FOLDED_NAMES) or name in self.lake.creatable:
            return name  # the log alone cannot tell that two names are one, before there is a table
        rng = random.Random(f"{self.lake.world.seed}/{self.process.doing}/{name[-1]}/letters")
        return (*name[:-1], rng.choice((str.lower, str.upper, str.title))(name[-1]))

    @property
    def rng(self) -> Any:
        """The action's own randomness."""
        return self.process.rng
