"""Faults and actions that can be switched on and off, each for itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum


class Core(Enum):
    """Whose core the users of a run have."""

    PYTHON = "python"
    JAVA = "java"
    BOTH = "both"
    """Some have Python's, some Java's, over one lake."""


class Switch(Enum):
    """What runs may have besides the faults and actions that all have."""

    STALE_HEADS = "stale-heads"
    """Loads of the commit table give an older version now and then."""
    STALE_TABLES = "stale-tables"
    """Loads of data tables give an older version now and then."""
    FALSE_REFUSALS = "false-refusals"
    """A server refuses what it has carried out, or is going to."""
    SHARED_IDS = "shared-ids"
    """Several processes and threads try the same caller's id at once."""
    KEYS = "keys"
    """Users write what depends on what they found: upserts, overwrites, deletes with a filter."""
    UPSETS = "upsets"
    """Strangers rename tables, put older ones in their place, and take their marks."""
    HIDDEN_LOG = "hidden-log"
    """Somebody moves the commit table away, and back after a while."""
    FOLDED_NAMES = "folded-names"
    """The catalog does not tell letters apart, and users write names in some of their own."""
    CLOCKS = "clocks"
    """Clocks are minutes to years ahead or behind, and jump from action to action."""
    HUNG_CALLS = "hung-calls"
    """Calls are answered after seconds to hours, if at all, or refused, loads and reads as well."""
    SUSPENDED = "suspended"
    """Processes stand still for seconds to days, beside those that remove what nobody needs."""
    FAULTY_STRANGERS = "faulty-strangers"
    """What strangers do fails, is lost and arrives late as what users do."""
    MIXED_SETTINGS = "mixed-settings"
    """Each user has options of its own."""
    PAYLOAD_FILES = "payload-files"
    """Payloads stand in files of their own, however small they are."""
    DELETE_FILES = "delete-files"
    """Users with Java's core take rows away by delete files."""
    EQUALITY_DELETES = "equality-deletes"
    """They do it by value as well, and so do strangers, as streaming engines do."""
    FORMAT_3 = "format-3"
    """Tables that only engines on the JVM write: deletion vectors, and ids of rows."""
    TWO_LOGS = "two-logs"
    """Another commit table has tables of its own in the same catalog."""
    COMPACTED_LOG = "compacted-log"
    """Strangers compact the commit table."""
    DESCRIBED_ANEW = "described-anew"
    """Users and strangers change columns, partitions and orders again and again."""
    ATOMIC = "atomic"
    """Some users move the log and its tables in one swap, where the catalog can."""
    BY_FILE = "by-file"
    """Tables have parts; users read and write by filters of parts and rows, mostly some of it."""
    RESERVATIONS = "reservations"
    """Who has lost tries again as one that is as old, and others wait for it; some never come."""
    DAMAGED = "damaged"
    """The log, a table or the catalog is lost or set back, and recovered, while users go on."""
    MALICIOUS = "malicious"
    """Somebody with the rights on the commit table alone forges what stands in it."""


ALONE = frozenset({Switch.DAMAGED, Switch.MALICIOUS})
"""What no run has beside all the others: no model of history says what holds there."""

ON = frozenset(Switch) - ALONE
"""What runs have beside each other that are not told otherwise; few are damaged in its place."""


@dataclass(frozen=True)
class Settings:
    """
    What one run has.

    Attributes:
        switches: What is on in it.
        stale_rate: The chance that a load gives an older version.
        skew_ms_max: How far clocks are ahead or behind where they jump.
    """

    switches: frozenset[Switch] = field(default_factory=frozenset)
    stale_rate: float = 0.0
    skew_ms_max: int = 0

    def has(self, switch: Switch) -> bool:
        """Whether something is on."""
        return switch in self.switches
