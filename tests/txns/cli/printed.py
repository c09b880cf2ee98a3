"""What commands print, and the states of a lake that they are run on."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.txns.lake import Lake, rows

if TYPE_CHECKING:
    from collections.abc import Callable

    from click.testing import Result


def json_of(result: Result) -> Any:
    assert 0 == result.exit_code, result.output
    return json.loads(result.stdout)


def died(lake: Lake) -> int:
    """Commit over both tables and die before anything is applied."""
    txn = lake.open().begin(comment="died")
    for name in ("shop.a", "shop.b"):
        txn.load_table(name).append(rows(3))
    return txn.commit_at().commit_ts


def rewrite(lake: Lake, table: str, change: Callable[[dict[str, Any]], None]) -> None:
    """Change the stored metadata of a table as no catalog would."""
    location = lake.another_catalog().load_table(table).metadata_location
    path = Path(location.removeprefix("file://"))
    metadata = json.loads(path.read_text("utf-8"))
    change(metadata)
    path.write_text(json.dumps(metadata), "utf-8")
