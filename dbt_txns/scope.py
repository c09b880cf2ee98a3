"""One node's materialization: what its transactions are to be like, and what came of them."""

from __future__ import annotations

import json
import subprocess
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dbt.adapters.contracts.connection import AdapterResponse
from dbt.adapters.txns.credentials import TransactionScope, checked_level, checked_retries
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.invocation import get_invocation_id

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from dbt.adapters.base.relation import BaseRelation
    from dbt.adapters.txns.credentials import TxnsCredentials

    from txns_spark.dbapi import Status

_GROWING = frozenset({"incremental", "snapshot"})


@dataclass
class TxnsResponse(AdapterResponse):
    """
    What a statement did; dbt writes it to run_results.json.

    Attributes:
        txn_id: The transaction's id; None outside of one.
        commit_ts: In ms; set when the transaction has committed; None where it wrote nothing.
    """

    txn_id: str | None = None
    commit_ts: int | None = None


@dataclass
class Scope:
    """
    From a node's first statement to its end.

    Attributes:
        transaction: Whether statements belong to a transaction that dbt ends.
        catalog: Whose tables it writes; it reads others as they are.
        isolation: Its level.
        retries: How often it is run again.
        comment: Goes into the log's archive.
        builds: The table that it builds, as an error names it; empty before that is known.
        compiling: Whether dbt has not come to the materialization yet: what is read goes into
            the model's text.
        compiled_in: The transaction that these reads were in; None if there were none.
        wrote: Whether it did more than read while it was compiled.
        undone: Whether that was rolled back, and is to be done again by compiling again.
        has_committed: Whether a part of it has: it is neither compiled nor run again then.
        txn_id: The transaction that was begun for it last.
        went_on: Whether that has statements of others than the model's text.
        touched: What it has changed in dbt's cache since it committed last.
        stale: Whether the text was made before what it rests on was put right.
        grows: Whether it adds to what is there, and replaces nothing that it knows of.
        resumes: Whether `dbt retry` runs it, and a part of its table was built by the run before.
        attempting: Whether a macro runs that may be run again.
        new_rows: The table of its new rows, if it has made one.
        responses: Of the statements of the open transaction, to be told the commit_ts.
    """

    transaction: bool
    catalog: str
    isolation: str
    retries: int
    comment: str
    builds: str = ""
    compiling: bool = False
    compiled_in: str | None = None
    wrote: bool = False
    undone: bool = False
    has_committed: bool = False
    txn_id: str | None = None
    went_on: bool = False
    touched: list[BaseRelation] = field(default_factory=list)
    stale: bool = False
    grows: bool = False
    resumes: bool = False
    attempting: bool = False
    new_rows: BaseRelation | None = None
    responses: list[TxnsResponse] = field(default_factory=list)

    @staticmethod
    def of(
        credentials: TxnsCredentials, config: Mapping[str, Any], node: str, target: str, root: str
    ) -> Scope:
        """
        Read a node's configuration: `transaction`, `isolation`, `retries` go before the profile's.

        Raises:
            DbtRuntimeError: One of them has a value that there is not.
        """
        scope = _checked_scope(config.get("transaction", credentials.transaction))
        retries = config.get("retries")
        comment = {
            "app": "dbt",
            "invocation_id": get_invocation_id(),
            "node_id": node,
            "target_name": target,
            "git_sha": _git_sha(root, get_invocation_id()),
        }
        return Scope(
            transaction=scope == TransactionScope.MODEL,
            catalog=config.get("database") or credentials.database,
            isolation=checked_level(config.get("isolation") or credentials.isolation),
            retries=credentials.retries if retries is None else checked_retries(retries),
            comment=json.dumps({key: value for key, value in comment.items() if value}),
            grows=config.get("materialized") in _GROWING,
        )

    def begun(self, txn_id: str | None) -> None:
        """Note the transaction that statements belong to from now on."""
        self.txn_id, self.went_on = txn_id, False
        self.responses.clear()

    def committed(self, status: Status, *, by_itself: bool = False) -> None:
        """
        Tell the transaction's statements when it committed, and note whether a part of it has.

        Args:
            status: Of the COMMIT.
            by_itself: Whether a statement of the node's own was the COMMIT.
        """
        # COMMIT answers with the read_ts, some other entry's, where there was nothing to commit.
        wrote = status.commit_ts != status.read_ts
        if wrote and (by_itself or self.is_under_way or (self.wrote and self.is_compilings)):
            self.has_committed = True
        for response in self.responses:
            response.commit_ts = status.commit_ts if wrote else None
        self.responses.clear()
        self.touched.clear()

    @property
    def is_under_way(self) -> bool:
        """Whether what runs now would be run again: a model's text, or an attempt."""
        return self.compiling or self.attempting

    @property
    def is_compiled_only(self) -> bool:
        """Whether all that its transaction has is done again as the model is compiled again."""
        is_done_once = self.is_under_way or self.has_committed or self.went_on
        return self.is_compilings and not is_done_once

    @property
    def is_compilings(self) -> bool:
        """Whether the last transaction is the one that the model was compiled in."""
        return self.compiled_in is not None and self.compiled_in == self.txn_id


@contextmanager
def attempting(scope: Scope | None) -> Iterator[None]:
    """Run a macro that may be run again: a part of it is not, by itself."""
    if scope is None:
        yield
        return
    scope.attempting = True
    try:
        yield
    finally:
        scope.attempting = False


def _checked_scope(value: object) -> TransactionScope:
    try:
        return TransactionScope(value)
    except ValueError as error:
        raise DbtRuntimeError(
            "transaction is 'model' or 'none'; none without quotes is Jinja's word for no value: "
            f"transaction={value!r}"
        ) from error


@lru_cache(maxsize=8)
def _git_sha(root: str, invocation_id: str) -> str | None:  # noqa: ARG001  (asked once for each)
    """Give the commit that the project is at; None where there is no git or no repository."""
    try:
        answer = subprocess.run(
            ["git", "rev-parse", "HEAD"],  # noqa: S607  (git as the user's PATH has it)
            cwd=Path(root),
            capture_output=True,
            text=True,
            timeout=5,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip() or None
