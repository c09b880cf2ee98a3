"""From a seed to everything that is going to happen, but for the order of steps."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from tests.simulation import (
    actions,
    by_file,
    bystanders,
    drills,
    forgeries,
    guard,
    other_log,
    races,
    strangers,
    strangers_ddl,
    subscriptions,
    threads,
    upkeep,
    upsets,
)
from tests.simulation.damage import Damage, strike
from tests.simulation.disaster import Drill
from tests.simulation.scheduler import DAY_MS, MINUTE_MS
from tests.simulation.settings import ON, Core, Settings, Switch
from tests.simulation.worker import Worker

Action = Callable[[Worker], None]

_USERS: dict[str, tuple[Action, float]] = {
    "transaction": (actions.transaction, 12),
    "autocommit": (actions.autocommit, 2),
    "threads": (threads.transactions, 1),
    "shared_transaction": (threads.in_one_transaction, 0.5),
    "subscribe": (subscriptions.subscribe, 1),
    "rename": (upkeep.rename, 0.3),
    "register": (upkeep.register, 0.7),
    "forget": (upkeep.forget, 0.3),
    "apply": (upkeep.apply, 1),
    "tidy": (upkeep.tidy, 1.5),
    "repair": (upkeep.repair, 1),
    "advance": (upkeep.advance, 0.3),
    "hold": (upkeep.hold, 0.8),
    "off_and_on": (upkeep.off_and_on, 0.15),
    "read_past": (upkeep.read_past, 2),
    "pause": (upkeep.pause, 0.5),
}
_STRANGERS: dict[str, tuple[Action, float]] = {
    "append": (strangers.append, 3),
    "compaction": (strangers.compaction, 4),
    "overwrite": (strangers.overwrite, 0.7),
    "rollback": (strangers.rollback, 0.7),
    "alter": (strangers_ddl.alter, 1.5),
    "expire": (strangers.expire, 4),
}
_UPSETS: dict[str, tuple[Action, float]] = {
    "rename": (upsets.rename, 1),
    "set_back": (upsets.set_back, 1),
    "take_mark": (upsets.take_mark, 1),
}
_LOG_HIDER = "l"
_MEETS = "transaction"
_RACE, _LIFE, _PURGE, _SAME_ID = "race", "life", "purge", "same_id"
_THREADS = "threads"
_HIDE_LOG, _PAUSE = "hide_log", "pause"
_DAYS, _TIDY_FILES = "days", "tidy_files"
_COMPACTED_LOG = "stranger-compacted-log"
_COMPACTED_PART = "stranger-compacted-part"
_ALTER = "stranger-alter"
_SET = "set"
_PURGER = "p"
_DAMAGE, _DAMAGE_VERB = "d", "damage-"
_REPLACEMENT, _ORPHANS = "stranger-replacement", "stranger-orphans"
_USER_NAMES = ("a", "b", "c")
_BACKUP, _STRIKE, _RECOVERY = "backup", "strike-", "recovery"
_BYSTANDER, _FORGE = "bystander-", "forge-"
_BESIDE_MALICE = frozenset(
    {
        Switch.STALE_HEADS,
        Switch.FALSE_REFUSALS,
        Switch.HUNG_CALLS,
        Switch.MIXED_SETTINGS,
        Switch.PAYLOAD_FILES,
    }
)
"""What else a seed may have in which records are forged."""
_BESIDE_DAMAGE = frozenset(
    {
        Switch.DAMAGED,
        Switch.FALSE_REFUSALS,
        Switch.SHARED_IDS,
        Switch.KEYS,
        Switch.HUNG_CALLS,
        Switch.MIXED_SETTINGS,
        Switch.PAYLOAD_FILES,
        Switch.DELETE_FILES,
    }
)
"""What else a seed may have that is damaged: with others it is hard to say what is lost."""
_PURGES = 0.3
"""How many seeds have purges."""
_SETS = 0.3
"""How many seeds have somebody set the log to something else."""
_REPLACEMENTS = 0.2
"""How many seeds with strangers have a table replaced by an empty one."""

_SKEWS_MS_MAX = (5 * MINUTE_MS, 120 * MINUTE_MS, 8 * DAY_MS, 3 * 365 * DAY_MS)
_SHARE = 0.4
"""How many seeds have what is switched on, each switch for itself."""
_ATOMIC = 0.7
"""How many users of such a seed move the log and its tables in one swap."""
_QUEUES = 0.85
"""With those how many look at the log's row before they move it, as all users of a database do."""
_DAMAGED_SHARE = 0.05
"""How many seeds are damaged, with Python's core, whose alone a recovery is."""

_OTHER = "o"
_OTHERS: dict[str, tuple[Action, float]] = {
    "transaction": (other_log.transaction, 5.0),
    "trespass": (other_log.trespass, 1.0),
    "upkeep": (other_log.upkeep, 1.0),
}

_KNOWN = (
    _USERS
    | {f"other-{name}": one for name, one in _OTHERS.items()}
    | {_RACE: (races.race, 0.0), _LIFE: (races.another_life, 0.0), _PURGE: (upkeep.purge, 0.0)}
    | {_SAME_ID: (threads.same_id, 0.0)}
    | {f"stranger-{name}": one for name, one in _STRANGERS.items()}
    | {_HIDE_LOG: (upsets.hide_log, 0.0)}
    | {f"upset-{name}": one for name, one in _UPSETS.items()}
    | {_REPLACEMENT: (strangers.replacement, 0.0), _ORPHANS: (strangers.orphans, 0.0)}
    | {_DAYS: (upkeep.let_days_pass, 0.0), _TIDY_FILES: (upkeep.tidy_files, 0.0)}
    | {_COMPACTED_PART: (strangers.compaction_of_part, 0.0)}
    | {_COMPACTED_LOG: (strangers.compact_log, 0.0), _SET: (upkeep.change_settings, 0.0)}
    | {f"{_DAMAGE_VERB}{kind.value}": (strike(kind), 0.0) for kind in Damage}
    | {f"{_STRIKE}{drill.value}": (drills.strike(drill), 0.0) for drill in Drill}
    | {_BACKUP: (drills.take_backup, 0.0), _RECOVERY: (drills.recovery, 0.0)}
    | {f"{_BYSTANDER}{name}": one for name, one in bystanders.ACTIONS.items()}
    | {f"{_FORGE}{name}": (forgeries.forge(name), 0.0) for name in forgeries.FORGERIES}
)


@dataclass(frozen=True)
class Plan:
    """
    What a seed stands for.

    Attributes:
        server: Whether the catalog validates on its side (REST), or swaps pointers.
        switch: The chance that another process goes on after a step.
        fault_rate: The chance of a fault per step.
        delay_rate: The chance of a delay per step.
        workers: Keys of actions, by worker, in order; `worker.number.action`.
        skews_ms: What clocks are ahead, by worker.
        options: Options of the handles.
        reject: Whether the audit sets aside what strangers did, or adopts it.
        settings: What it has besides.
        core: Whose core its users have.
        java: The workers whose processes have Java's core.
        own_options: Options of single workers, over those of all.
        slow_alone: What the name of the only worker begins with that hangs or is suspended.
        mutation: The protection that Java's core is without.
    """

    seed: int
    server: bool
    switch: float
    fault_rate: float
    delay_rate: float
    workers: dict[str, tuple[str, ...]]
    skews_ms: dict[str, int]
    options: dict[str, object]
    reject: bool
    settings: Settings
    core: Core = Core.PYTHON
    java: frozenset[str] = frozenset()
    own_options: dict[str, dict[str, object]] = field(default_factory=dict)
    slow_alone: str = ""
    mutation: str | None = None


def damaged(seed: int, kind: Damage, core: Core = Core.PYTHON) -> Plan:
    """Draw the plan of a seed with a damage in its middle, and nothing else amiss."""
    planned = plan(seed, frozenset(), core)
    rng = random.Random(f"{seed}/damage")
    before = (f"{_DAMAGE}.{number}.{_PAUSE}" for number in range(rng.randint(0, 2)))
    keys = (*before, f"{_DAMAGE}.it.{_DAMAGE_VERB}{kind.value}")
    workers = {name: each for name, each in planned.workers.items() if name != _PURGER}
    return replace(
        planned,
        workers={**workers, _DAMAGE: keys},
        skews_ms={**planned.skews_ms, _DAMAGE: 0},
        fault_rate=0.0,
    )


def plan(
    seed: int,
    only: frozenset[Switch] | None = None,
    core: Core = Core.PYTHON,
) -> Plan:
    """
    Draw the plan of a seed.

    Args:
        seed: Any number.
        only: What every seed has; otherwise a share of them has each of what is on.
        core: Whose core its users have; their actions are the same.
    """
    drawn = _plan(seed, only, core)
    return replace(drawn, core=core, java=_with_java(seed, drawn, core))


def _with_java(seed: int, drawn: Plan, core: Core) -> frozenset[str]:
    """Give the workers with Java's core: all users, or some of them."""
    users = [name for name in drawn.workers if name in {*_USER_NAMES, _PURGER}]
    if core is Core.BOTH:
        rng = random.Random(f"{seed}/java")
        return frozenset(rng.sample(users, rng.randint(1, len(users) - 1)))
    return frozenset(users if core is Core.JAVA else ())


def _verb(key: str) -> str:
    return key.rsplit(".", 1)[1]


def _plan(seed: int, only: frozenset[Switch] | None, core: Core) -> Plan:
    settings = _settings(seed, only, core)
    rng = random.Random(f"{seed}/plan")
    fault_rate = rng.choice((0.0, 0.01, 0.02, 0.04))
    workers = {
        name: _keys(rng, name, _USERS, rng.randint(5, 9))
        for name in _USER_NAMES[: rng.randint(2, 3)]
    }
    if rng.random() < 0.35:  # all at once, while there is nothing under the name yet
        workers = {name: (f"{name}.first.{_RACE}", *keys) for name, keys in workers.items()}
    purges = random.Random(f"{seed}/purges")
    # What removes for good goes by the clock, which has to be right for it.
    if (
        purges.random() < _PURGES
        and not settings.has(Switch.CLOCKS)
        and not settings.has(Switch.DAMAGED)
    ):  # of a name that has some lives just then, and of others
        lives = {name: purges.randint(1, 3) for name in workers}
        workers = {
            name: (*(f"{name}.{_LIFE}{number}.{_LIFE}" for number in range(lives[name])), *keys)
            for name, keys in workers.items()
        }
        count = purges.randint(2, 5)
        workers[_PURGER] = tuple(f"{_PURGER}.{number}.{_PURGE}" for number in range(count))
    if settings.has(Switch.SHARED_IDS):
        workers = _with_same_ids(seed, workers)
    if rng.random() < 0.6:
        workers["s"] = _keys(rng, "s", _STRANGERS, rng.randint(1, 5), prefix="stranger-")
        replacements = random.Random(f"{seed}/replacements")
        if replacements.random() < _REPLACEMENTS:
            workers["s"] = _mixed(replacements, workers["s"], (f"s.replaced.{_REPLACEMENT}",))
    if settings.has(Switch.BY_FILE):
        workers = _with_meetings(seed, workers)
    workers = _with_more_strangers(seed, settings, workers)
    workers = _with_company(seed, settings, workers)
    if settings.has(Switch.DAMAGED):
        workers = _with_drill(seed, workers)
    if settings.has(Switch.MALICIOUS):
        workers = _with_forger(seed)
    server = rng.random() < 0.5
    return Plan(
        seed=seed,
        server=server,
        switch=rng.choice((0.05, 0.3, 0.9)),
        fault_rate=fault_rate,
        delay_rate=rng.choice((0.0, 0.01, 0.03)),
        workers=workers,
        skews_ms={name: rng.choice((0, 0, 3, -2000, 4000, 90_000)) for name in workers}
        | {drills.NAME: 0},  # who creates a log by a wrong clock is refused by its server
        options={
            "apply": rng.choice(
                ("next",)  # what is described anew before it is applied is what matters there
                if settings.has(Switch.DESCRIBED_ANEW)
                else ("inline", "inline", "next")
            ),
            "tidy_after": rng.choice((1, 4, 16, 16)),
            "register": rng.choice(("created", "created", "all")),
            # Strangers let days pass while a job is still retried, and clocks jump.
            "id_retention_days": 36_500 if settings.has(Switch.CLOCKS) else 365,
        },
        reject=rng.random() < 0.5,
        settings=settings,
        own_options={
            **_options_of_users(seed, settings, workers, server=server),
            _OTHER: dict(other_log.OPTIONS),
        },
        # A purger counts in ms what a lake counts in hours: beside it others are as fast as ever.
        slow_alone=f"{_PURGER}." if _PURGER in workers else "",
    )


def _with_meetings(seed: int, workers: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Let users begin with transactions, while there is little else that others do to tables."""
    rng = random.Random(f"{seed}/meetings")
    users = [name for name in workers if name in _USER_NAMES]
    meets = {name: range(rng.randint(3, 5)) for name in users}
    return {
        name: (*(f"{name}.meets{number}.{_MEETS}" for number in meets.get(name, ())), *keys)
        for name, keys in workers.items()
    }


def _with_more_strangers(
    seed: int, settings: Settings, workers: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Let strangers do what belongs to a switch, whatever else they do."""
    workers = dict(workers)
    if settings.has(Switch.COMPACTED_LOG):
        compactions = random.Random(f"{seed}/compacted-log")
        keys = (f"s.log{number}.{_COMPACTED_LOG}" for number in range(compactions.randint(1, 3)))
        workers["s"] = _mixed(compactions, workers.get("s", ()), tuple(keys))
    if settings.has(Switch.BY_FILE):
        parts = random.Random(f"{seed}/compacted-parts")
        keys = (f"s.part{number}.{_COMPACTED_PART}" for number in range(parts.randint(1, 3)))
        workers["s"] = _mixed(parts, workers.get("s", ()), tuple(keys))
    if settings.has(Switch.DESCRIBED_ANEW):
        described = random.Random(f"{seed}/described-anew")
        keys = (f"s.alter{number}.{_ALTER}" for number in range(described.randint(5, 9)))
        workers["s"] = _mixed(described, workers.get("s", ()), tuple(keys))
    return workers


def _with_company(
    seed: int, settings: Settings, workers: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Add those who upset tables, hide the log, have another one; and what happens meanwhile."""
    workers = dict(workers)
    sets = random.Random(f"{seed}/set")
    if sets.random() < _SETS:
        name = sets.choice([one for one in workers if one in _USER_NAMES])
        workers[name] = _mixed(sets, workers[name], (f"{name}.set0.{_SET}",))
    if settings.has(Switch.UPSETS):
        upset = random.Random(f"{seed}/upsets")
        workers["u"] = _keys(upset, "u", _UPSETS, upset.randint(1, 3), prefix="upset-")
    if settings.has(Switch.HIDDEN_LOG):
        workers[_LOG_HIDER] = tuple(
            f"{_LOG_HIDER}.{number}.{each}" for number in range(2) for each in (_PAUSE, _HIDE_LOG)
        )
    if settings.has(Switch.TWO_LOGS):
        others = random.Random(f"{seed}/two-logs")
        workers[_OTHER] = _keys(others, _OTHER, _OTHERS, others.randint(2, 5), prefix="other-")
    if settings.has(Switch.SUSPENDED):
        workers = _beside_the_suspended(seed, workers)
    return workers


def _with_drill(seed: int, workers: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Let something happen to the lake, and somebody recover it, while users have more to do."""
    rng = random.Random(f"{seed}/drill")
    workers = {
        name: (*keys, *_keys(rng, f"{name}.after", _USERS, rng.randint(2, 4)))
        for name, keys in workers.items()
        if name in _USER_NAMES
    }
    drill = rng.choice(list(Drill))
    verbs = [_BACKUP] if drill.needs_backup else []
    verbs += [f"{_STRIKE}{drill.value}", _RECOVERY]
    admin = drills.NAME
    return {**workers, admin: tuple(f"{admin}.{at}.{verb}" for at, verb in enumerate(verbs))}


def _with_forger(seed: int) -> dict[str, tuple[str, ...]]:
    """Let users work on a lake of whose log somebody forges records."""
    rng = random.Random(f"{seed}/forger")
    names = _USER_NAMES[: rng.randint(2, 3)]
    users = {
        name: _keys(rng, name, bystanders.ACTIONS, rng.randint(7, 12), prefix=_BYSTANDER)
        for name in names
    }
    forged = rng.choices(sorted(forgeries.FORGERIES), k=rng.randint(2, 7))
    others = {name: _OTHERS[name] for name in ("transaction", "upkeep")}
    return {
        **users,
        guard.FORGER: tuple(
            f"{guard.FORGER}.{at}.{_FORGE}{name}" for at, name in enumerate(forged)
        ),
        _OTHER: _keys(rng, _OTHER, others, rng.randint(2, 4), prefix="other-"),
    }


def _options_of_users(
    seed: int, settings: Settings, workers: dict[str, tuple[str, ...]], *, server: bool
) -> dict[str, dict[str, object]]:
    """Give each user the options that are its own, if any."""
    own = _own_options(seed, workers) if settings.has(Switch.MIXED_SETTINGS) else {}
    if settings.has(Switch.BY_FILE):
        users = sorted({*_USER_NAMES} & workers.keys())
        for name, options in by_file.options(seed, users).items():
            own[name] = {**own.get(name, {}), **options}
    if not settings.has(Switch.ATOMIC) or server:
        return own
    rng = random.Random(f"{seed}/atomic")
    for name in sorted({*_USER_NAMES, _PURGER} & workers.keys()):
        drawn = rng.random()
        if drawn < _ATOMIC:
            own[name] = {**own.get(name, {}), "apply": "atomic"}
        elif drawn < _QUEUES:
            own[name] = {**own.get(name, {}), "queues": True}
    return own


def _own_options(seed: int, workers: dict[str, tuple[str, ...]]) -> dict[str, dict[str, object]]:
    """Draw options for each user."""
    rng = random.Random(f"{seed}/own-options")
    return {
        name: {
            "apply": rng.choice(("inline", "next")),
            "tidy_after": rng.choice((1, 4, 16)),
            "register": rng.choice(("created", "all")),
        }
        for name in sorted(workers)
        if name in {*_USER_NAMES, _PURGER}
    }


def _beside_the_suspended(
    seed: int, workers: dict[str, tuple[str, ...]]
) -> dict[str, tuple[str, ...]]:
    """Let days pass, and files be removed that nobody needs, while some process stands still."""
    rng = random.Random(f"{seed}/suspended")
    for name in [one for one in workers if one in _USER_NAMES]:
        for number in range(rng.randint(1, 3)):
            keys, at = workers[name], rng.randint(0, len(workers[name]))
            later = f"{name}.later{number}.{rng.choice((_DAYS, _TIDY_FILES, _TIDY_FILES))}"
            workers = {**workers, name: (*keys[:at], later, *keys[at:])}
    orphans = random.Random(f"{seed}/orphans")
    removals = (f"s.orphans{number}.{_ORPHANS}" for number in range(orphans.randint(1, 2)))
    return {**workers, "s": _mixed(orphans, workers.get("s", ()), tuple(removals))}


def _settings(seed: int, only: frozenset[Switch] | None, core: Core) -> Settings:
    """Draw what a seed has of what is on; what one switch brings changes nothing else."""
    chances = {one: random.Random(f"{seed}/{one.value}").random() for one in Switch}
    drawn = frozenset(one for one in ON if chances[one] < _SHARE) if only is None else only
    if only is None and core is Core.PYTHON and chances[Switch.DAMAGED] < _DAMAGED_SHARE:
        drawn = frozenset({Switch.DAMAGED})
    if Switch.DAMAGED in drawn:
        drawn |= frozenset(one for one in _BESIDE_DAMAGE if chances[one] < _SHARE)
    if Switch.MALICIOUS in drawn:
        drawn |= {Switch.TWO_LOGS}
        drawn |= frozenset(one for one in _BESIDE_MALICE if chances[one] < _SHARE)
    stale_rate = random.Random(f"{seed}/stale-rate").choice((0.03, 0.3))
    skew_ms_max = random.Random(f"{seed}/skew").choice(_SKEWS_MS_MAX)
    return Settings(drawn, stale_rate, skew_ms_max)


def _with_same_ids(seed: int, workers: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
    """Let users try the same ids at about the same time, in processes and in threads."""
    rng = random.Random(f"{seed}/same-ids")
    for number in range(rng.randint(1, 2)):
        for name in [one for one in workers if one in _USER_NAMES]:
            keys, at = workers[name], rng.randint(0, 2)
            same = f"{name}.shared{number}.{_SAME_ID}"
            workers = {**workers, name: (*keys[:at], same, *keys[at:])}
    return {**workers, "a": (f"a.together.{_THREADS}", *workers["a"])}


def _mixed(rng: random.Random, keys: tuple[str, ...], more: tuple[str, ...]) -> tuple[str, ...]:
    """Put keys between others, somewhere."""
    for key in more:
        at = rng.randint(0, len(keys))
        keys = (*keys[:at], key, *keys[at:])
    return keys


def _keys(
    rng: random.Random,
    worker: str,
    known: dict[str, tuple[Action, float]],
    count: int,
    prefix: str = "",
) -> tuple[str, ...]:
    weights = [weight for _action, weight in known.values()]
    drawn = rng.choices(list(known), weights, k=count)
    return tuple(f"{worker}.{number}.{prefix}{name}" for number, name in enumerate(drawn))


def verbs(only: frozenset[Switch] | None = None) -> list[str]:
    """Give the names of all actions that ordinary runs may have, or damaged, or forged ones."""
    if only is not None and Switch.MALICIOUS in only:
        return [name for name in _KNOWN if name.startswith((_BYSTANDER, _FORGE))]
    if only is not None and Switch.DAMAGED in only:
        drill = [name for name in _KNOWN if name.startswith(_STRIKE)]
        return [*_USERS, _RACE, _SAME_ID, _SET, _BACKUP, *drill, _RECOVERY]
    return [name for name in _KNOWN if not name.startswith((_DAMAGE_VERB, _BYSTANDER, _FORGE))]


def action_of(key: str) -> Action:
    """Give the action that a key names."""
    return _KNOWN[_verb(key)][0]
