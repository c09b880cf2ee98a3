"""
A loader of its own, which a test kills: `python -m integration_tests.load_program`.

It loads into `lake.db` through SQLAlchemy, as users' programs do, and stops for ever where
its option `stop` says, before a statement or a COMMIT is sent.
"""

from __future__ import annotations

import json
import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import sqlalchemy as sa

from integration_tests import migrations, sessions

if TYPE_CHECKING:
    from collections.abc import Iterator

ROWS = 50


def _pandas(folder: Path, engine: sa.Engine, run: int) -> None:
    """Replace all rows of t."""
    import pandas as pd  # noqa: PLC0415  (others do not need it)

    del folder
    frame = pd.DataFrame({"id": range(ROWS), "run": run})
    frame.to_sql("t", engine, index=False, if_exists="delete_rows", chunksize=ROWS // 2)


def _dlt(folder: Path, engine: sa.Engine, run: int) -> None:
    """Delete what comes again, and insert it: dlt's merge."""
    import dlt  # noqa: PLC0415  (it reads its settings from the working directory)

    os.environ["RUNTIME__DLTHUB_TELEMETRY"] = "false"
    pipeline = dlt.pipeline(
        "loads",
        pipelines_dir=str(folder / f"dlt{run}"),
        destination=dlt.destinations.sqlalchemy(
            engine.url.set(host="localhost").render_as_string(hide_password=False)
        ),
        dataset_name="db",
    )

    @dlt.resource(name="t", primary_key="id", write_disposition="merge")
    def rows() -> Iterator[dict[str, Any]]:
        yield from ({"id": number, "run": run} for number in range(ROWS))

    pipeline.run(rows())


def _alembic(folder: Path, engine: sa.Engine, run: int) -> None:
    """Migrate to the newest revision."""
    from alembic import command  # noqa: PLC0415  (its import registers plugins)

    del run
    url = engine.url.render_as_string(hide_password=False)
    command.upgrade(migrations.config(folder / "migrations", url), "head")


def _stop_at(pattern: str) -> None:
    """Say "stopped" and wait to be killed, before a statement that matches, or a COMMIT."""

    def stop(what: str) -> None:
        if re.search(pattern, what, re.IGNORECASE | re.DOTALL):
            print("stopped", flush=True)
            sys.stdin.read()

    @sa.event.listens_for(sa.Engine, "before_cursor_execute")
    def statement(_connection: Any, _cursor: Any, text: str, *_rest: Any) -> None:
        stop(text)

    @sa.event.listens_for(sa.Engine, "commit")
    def commit(_connection: Any) -> None:
        stop("COMMIT")


def main() -> None:
    """Load: arguments are what, the lake's folder, the run's number, options as JSON."""
    what, folder, run, given = sys.argv[1:]
    options = json.loads(given)
    sessions.start(Path(folder))
    engine = sa.create_engine("txns://localhost/lake/db")
    with engine.connect():
        print("ready", flush=True)
    if options.get("waits"):
        sys.stdin.readline()
    if "stop" in options:
        _stop_at(options["stop"])
    loads = {"pandas": _pandas, "dlt": _dlt, "alembic": _alembic}
    loads[what](Path(folder).parent, engine, int(run))
    print("done", flush=True)


if __name__ == "__main__":
    main()
