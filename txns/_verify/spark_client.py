"""Sessions of Spark: threads of one process, which has one driver, since a JVM is large."""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from txns._verify import spark_statements
from txns._verify.model import LOOKS, Row, ordered
from txns._verify.session import Begun, work
from txns._verify.spark_driver import Driver, StatementFailed
from txns.errors import Conflict, InvalidUsage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from txns._verify.model import Step
    from txns._verify.plan import Plan, Timing


class SparkClient:
    """One session's transactions as Spark SQL; see `Client`."""

    def __init__(self, plan: Plan, driver: Driver, session: int) -> None:
        """Carry out a plan's transactions in one of a driver's sessions."""
        self._plan = plan
        self._driver = driver
        self._session = session
        # An INSERT OVERWRITE replaces the days that it brings.
        self._ask("SET spark.sql.sources.partitionOverwriteMode = dynamic")

    def begin(self) -> Begun:
        """
        Begin a transaction.

        Raises:
            SystemExit: The driver has ended.
        """
        self._driver.check_at_work()
        (row,) = self._ask(f"BEGIN ISOLATION LEVEL {self._plan.level}")
        return Begun(row["txn_id"], row["read_ts"])

    def carry_out(self, step: Step) -> Any:
        """Carry out a statement; give what it saw."""
        names = (self._plan.catalog, *self._plan.tables[step.table].split("."))
        table = ".".join(f"`{name}`" for name in names)
        seen = None
        if step.verb == "count":
            (row,) = self._ask(spark_statements.count(step, table))
            seen = row["found"]
        elif step.verb in {"read", "update"}:  # an UPDATE does not tell which rows it found
            seen = ordered(Row(**row) for row in self._ask(spark_statements.query(step, table)))
        if step.verb not in LOOKS:
            self._ask(spark_statements.write(step, table))
        return seen

    def has_written(self) -> bool:
        """Whether the transaction has staged anything."""
        (row,) = self._ask("SHOW TRANSACTION")
        return bool(row["tables"])

    def commit(self) -> int:
        """Commit; give where it stands, in ms."""
        (row,) = self._ask("COMMIT")
        commit_ts: int = row["commit_ts"]
        return commit_ts

    def end(self) -> None:
        """Undo what is still open."""
        self._ask("ROLLBACK")

    def _ask(self, statement: str) -> list[Mapping[str, Any]]:
        try:
            return self._driver.ask(self._session, statement)
        except StatementFailed as error:
            if error.sqlstate == Conflict.sqlstate:
                raise Conflict(str(error)) from error
            raise


def run(plan: Plan, timing: Timing, sessions: list[int], life: int) -> None:
    """
    Run sessions in one driver until the time is over.

    Args:
        plan: Of the run.
        timing: Of all of its processes.
        sessions: Their numbers.
        life: How often they were killed before.

    Raises:
        SystemExit: The driver does not start, or has ended by itself.
    """
    os.setsid()  # whoever kills this process kills its driver with it
    try:
        driver = Driver(plan, sessions, Path(plan.folder, f"spark-{life}.log"))
    except InvalidUsage as error:
        raise SystemExit(str(error)) from None
    with driver, ThreadPoolExecutor(len(sessions)) as pool:
        clients = {number: SparkClient(plan, driver, number) for number in sessions}
        timing.wait(f"session-{sessions[0]}")
        running = [
            pool.submit(work, plan, timing, client, number, life)
            for number, client in clients.items()
        ]
        for each in running:
            each.result()
        driver.check_at_work()
