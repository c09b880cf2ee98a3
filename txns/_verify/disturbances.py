"""
What goes on in a lake beside its transactions: compaction, expiry, and who knows no protocol.

Each is a process of its own, which writes down what it has done. The stranger appends rows of a
key range and of a day of its own, which no session looks at, and has them adopted.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from random import Random  # noqa: TID251 -- of a seed that is told
from typing import TYPE_CHECKING, Any

from txns._clock import SystemClock
from txns._message import said_by
from txns._verify.compaction import compact
from txns._verify.history import shortened
from txns._verify.model import Row
from txns._verify.python_client import ignore_warnings
from txns._verify.statements import arrow
from txns._verify.workloads import DAYS, EVENTS
from txns.errors import Unsupported

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from txns._handle import Handle
    from txns._verify.model import Rows
    from txns._verify.plan import Plan, Timing

STRANGERS_FROM = 2**62
"""Where the stranger's key range begins; sessions stay below."""
_EVERY_MS = (300, 1500)
_ADOPTIONS = 20
"""How often an adoption that has lost is tried again."""

COMPACTION, EXPIRY, STRANGER = "compaction", "expiry", "stranger"
_TELLS = {COMPACTION: "compacted", EXPIRY: "expired", STRANGER: "adopted"}
"""What each of them writes down when it has done its work."""
ALL = (*_TELLS,)


class _Notes:
    """Writes down what one process does, a line each time."""

    def __init__(self, plan: Plan, name: str, life: int) -> None:
        self._path = Path(plan.folder, journal_name(name, life))

    def note(self, deed: str, **more: Any) -> None:
        with self._path.open("a") as file:
            file.write(json.dumps({"deed": deed, **more}) + "\n")


def journal_name(name: str, life: int | str) -> str:
    """Give the name of the file that one life of a process writes."""
    return f"beside-{name}-{life}.jsonl"


def run(plan: Plan, timing: Timing, names: Sequence[str], life: int) -> None:
    """
    Do one thing again and again until the time is over.

    Args:
        plan: Of the run.
        timing: Of all of its processes.
        names: What, alone.
        life: How often it was killed before.
    """
    (name,) = names
    ignore_warnings()
    rng, clock = Random(f"{plan.seed}/{name}/{life}"), SystemClock()  # noqa: S311 -- no secret
    notes = _Notes(plan, name, life)
    with plan.handle() as handle:
        does: dict[str, Callable[[], None]] = {
            COMPACTION: lambda: _compact(handle, rng.choice([*plan.tables.values()]), notes),
            EXPIRY: lambda: _expire(handle, rng.choice([*plan.tables.values()]), notes),
            STRANGER: Stranger(plan, handle, life, notes).append,
        }
        timing.wait(name)
        while timing.goes_on():
            try:
                does[name]()
            except Exception as error:  # noqa: BLE001 -- it is told, and tried again
                notes.note("failed", why=said_by(error))
            clock.sleep(rng.randint(*_EVERY_MS))


def _compact(handle: Handle, table: str, notes: _Notes) -> None:
    replaced = compact(handle.catalog().load_table(table))
    notes.note(_TELLS[COMPACTION] if replaced else "found nothing to compact", files=replaced)


def _expire(handle: Handle, table: str, notes: _Notes) -> None:
    """Ask for all to go that may: the protocol keeps what a transaction may still need."""
    loaded = handle.catalog().load_table(table)
    before = len(loaded.metadata.snapshots)
    now = datetime.fromtimestamp(handle.parts.clock.now_ms() / 1000, UTC)
    loaded.maintenance.expire_snapshots().older_than(now).commit()
    notes.note(_TELLS[EXPIRY], snapshots=before - len(loaded.refresh().metadata.snapshots))


class Stranger:
    """Appends past the protocol, one row at a time, and has it adopted."""

    def __init__(self, plan: Plan, handle: Handle, life: int, notes: _Notes) -> None:
        """Append rows that no other life of it appends."""
        self._table = plan.tables[EVENTS]
        self._plain = plan.plain()
        self._handle = handle
        self._ids = iter(range(STRANGERS_FROM + life * 1_000_000, 2**63))
        self._notes = notes

    def append(self) -> None:
        """
        Append a row; what one that was killed has left is adopted first.

        Raises:
            Exception: The append or the adoption has failed, and may have happened.
        """
        self._adopt()
        row = Row(next(self._ids), DAYS, 0)
        self._notes.note("appends", row=row.id)
        self._plain.load_table(self._table).append(arrow([row]))
        self._adopt()
        self._notes.note(_TELLS[STRANGER], row=row.id)

    def _adopt(self) -> None:
        adopt(self._handle, self._table)


def adopt(handle: Handle, table: str) -> None:
    """
    Take in what strangers wrote to a table, if there is anything.

    Raises:
        Exception: It has failed again and again.
    """
    for left in reversed(range(_ADOPTIONS)):
        try:
            handle.repair_adopt(table)
        except Unsupported:
            return  # nothing, or somebody has adopted it
        except Exception:
            if not left:
                raise
            handle.parts.clock.back_off(100)
        else:
            return


@dataclass
class Beside:
    """
    What went on beside the sessions.

    Attributes:
        deeds: How often each thing happened, by its words.
        failed: Why, and how often, each of them got an error, by its name.
        tried: The stranger's rows that may be there.
        adopted: Those of them that it was told are there.
    """

    deeds: Counter[str] = field(default_factory=Counter)
    failed: defaultdict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    tried: set[int] = field(default_factory=set)
    adopted: set[int] = field(default_factory=set)

    def wrong(self, found: Rows) -> Iterator[str]:
        """Give what is not right about the stranger's rows that are there."""
        ids = Counter(row.id for row in found)
        lost = sorted(self.adopted - ids.keys())
        more = sorted(each for each, times in ids.items() if times > 1 or each not in self.tried)
        if lost or more:
            yield f"of a stranger's rows lost {lost}, more {more}"

    def idle(self, names: Iterable[str]) -> Iterator[str]:
        """Say which of those that were to go on have not done their work once, and why."""
        for name in names:
            if self.deeds[_TELLS[name]]:
                continue
            for why, times in self.failed[name].most_common(1):
                yield f"{name} never worked: {times} times {why}"
            if not self.failed[name]:
                yield f"{name} has not happened once: give it more --seconds"


def read(folder: Path) -> Beside:
    """Read what all processes beside the sessions have written down in a folder."""
    beside = Beside()
    for path in sorted(folder.glob(journal_name("*", "*"))):
        _, name, _ = path.stem.split("-")
        for line in path.read_text().splitlines():
            try:
                told = json.loads(line)
            except ValueError:
                continue  # the last line of one that was killed
            _take(beside, name, told)
    return beside


def _take(beside: Beside, name: str, told: dict[str, Any]) -> None:
    deed = told["deed"]
    if deed == "failed":
        why = shortened(told["why"])
        beside.failed[name][why] += 1
        beside.deeds[f"failed: {why}"] += 1
        return
    beside.deeds[deed] += 1
    if deed == "appends":
        beside.tried.add(told["row"])
    elif deed == _TELLS[STRANGER]:
        beside.adopted.add(told["row"])
    elif deed == _TELLS[EXPIRY]:
        beside.deeds["snapshots that expiry has taken"] += told["snapshots"]
