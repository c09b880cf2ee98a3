"""
What Iceberg's own server makes of a commit, where pyiceberg, which plays it here, does otherwise.

Source: `TableMetadata.Builder` and the checks of `TableMetadata` of Iceberg 1.12.
"""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

from pyiceberg.exceptions import BadRequestError

from tests.simulation import java_rules

if TYPE_CHECKING:
    from pyiceberg.table.metadata import TableMetadata


def stamps_by_its_clock(seed: int) -> bool:
    """Whether a seed's server does as Iceberg's; else a new snapshot's time is the metadata's."""
    return random.Random(f"{seed}/stamps").random() < 0.5


def stamped(metadata: TableMetadata, now_ms: int) -> TableMetadata:
    """Give metadata with the time of the server's clock, whatever times its snapshots have."""
    return metadata.model_copy(update={"last_updated_ms": now_ms})


def check(old: TableMetadata | None, new: TableMetadata) -> None:
    """Refuse what no Iceberg on the JVM could load any more."""
    if why := java_rules.breaks(old, new):
        raise BadRequestError(f"simulated: the server cannot build it: {why}")
