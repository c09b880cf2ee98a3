"""The adapter: what dbt asks of a database, and the transaction around each model."""

from __future__ import annotations

import sys
import threading
import uuid
from collections import Counter
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dbt.adapters.base.impl import ConstraintSupport, available, catch_as_completed
from dbt.adapters.capability import Capability, CapabilityDict, CapabilitySupport, Support
from dbt.adapters.events.logging import AdapterLogger
from dbt.adapters.exceptions import FailedToConnectError
from dbt.adapters.spark.impl import SparkConfig
from dbt.adapters.txns import bounds
from dbt.adapters.txns.aside import making_way, put_back
from dbt.adapters.txns.connections import StatementError, TxnsConnectionManager
from dbt.adapters.txns.debug import check
from dbt.adapters.txns.known import KnowingAdapter
from dbt.adapters.txns.others import built_by_others
from dbt.adapters.txns.recompile import compile_again
from dbt.adapters.txns.relation import TxnsRelation
from dbt.adapters.txns.resumed import is_resumed, keep_what_is_built
from dbt.adapters.txns.rows import literal_rows, texts
from dbt.adapters.txns.scope import TxnsResponse, attempting
from dbt.adapters.txns.turns import Turns
from dbt_common.contracts.constraints import ConstraintType
from dbt_common.exceptions import DbtRuntimeError
from dbt_common.utils import executor

from txns_spark.retries import wait_before_attempt

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    import agate
    from dbt.adapters.base.relation import BaseRelation
    from dbt.adapters.contracts.relation import RelationConfig
    from dbt.adapters.spark.column import SparkColumn
    from dbt.adapters.txns.scope import Scope
    from dbt.clients.jinja import MacroGenerator

logger = AdapterLogger("txns")

_OPERATION = "macro_"
# What is compiled and run on one connection, and has a transaction.
_NODES = frozenset({"model", "snapshot", "test"})
# Of the session, which one thread has; a seed's own name may be none that Spark takes for a view.
_SEED_VIEW = "txns_dbt_seed"
_NOT_COMPILED_AGAIN = (
    "what the model builds has come to be since it was compiled, and what it wrote then has"
    " committed, so it is not compiled again: run it again, or let a hook write that"
)
_FIRST_WAIT_MS = 400
_WAIT_MS_MAX = 5000


@dataclass
class TxnsConfig(SparkConfig):
    """Configuration of a model, besides dbt-spark's: how it is committed."""

    file_format: str = "iceberg"
    transaction: str | None = None
    isolation: str | None = None
    retries: int | None = None


class TxnsAdapter(KnowingAdapter):
    """dbt-spark's adapter over transactional catalogs."""

    Relation = TxnsRelation
    ConnectionManager = TxnsConnectionManager
    AdapterSpecificConfigs = TxnsConfig
    connections: TxnsConnectionManager

    # Iceberg has columns that are required; it knows neither keys nor checks.
    CONSTRAINT_SUPPORT = {  # noqa: RUF012  (as dbt-spark has it)
        ConstraintType.check: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.not_null: ConstraintSupport.ENFORCED,
        ConstraintType.unique: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.primary_key: ConstraintSupport.NOT_SUPPORTED,
        ConstraintType.foreign_key: ConstraintSupport.NOT_SUPPORTED,
    }

    # Batches run in sessions and transactions of their own.
    _capabilities = CapabilityDict(
        {Capability.MicrobatchConcurrency: CapabilitySupport(support=Support.Full)}
    )

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._turns = Turns()
        self._depth = threading.local()

    # A node's transaction

    @contextmanager
    def connection_named(
        self, name: str, query_header_context: Any = None, should_release_connection: bool = True
    ) -> Iterator[None]:
        """Use a connection; a node's scope begins before it is compiled."""
        with super().connection_named(name, query_header_context, should_release_connection):
            node = query_header_context
            if str(getattr(node, "resource_type", "")) not in _NODES:
                yield
                return
            scope = self.connections.enter_scope(node.config, node.unique_id)
            scope.compiling = True
            scope.catalog = node.database or scope.catalog
            scope.resumes = is_resumed(node)
            try:
                yield
            finally:
                self.leave_scope()

    def pre_model_hook(self, config: Mapping[str, Any]) -> None:
        """Go on in the node's scope, or enter it: its first statement begins the transaction."""
        scope = self.connections.scope or self.connections.enter_scope(config)
        scope.compiling = False

    def post_model_hook(self, config: Mapping[str, Any], context: Any) -> None:  # noqa: ARG002  (dbt's own)
        """
        Leave the scope; commit what a materialization of the user's own left open.

        dbt calls this in a `finally`: while an exception is on its way nothing is committed.

        Raises:
            DbtRuntimeError: A batch of a microbatch model left it open: dbt catches a batch's
                error before this, so nobody knows whether it is to be committed.
        """
        try:
            if sys.exc_info()[0] is None:
                self._commit_rest(config)
        finally:
            self.leave_scope()

    def _commit_rest(self, config: Mapping[str, Any]) -> None:
        if config.get("incremental_strategy") != "microbatch":
            self.connections.commit()
        elif self.connections.get_thread_connection().transaction_open:
            message = (
                "a batch has left its transaction open, which is rolled back: the materialization"
                " of a microbatch model does its work in adapter.in_transaction(macro, this)"
            )
            logger.error(message)  # dbt keeps the messages of batches to itself
            raise DbtRuntimeError(message)

    @available.parse_none
    def in_transaction(
        self,
        body: MacroGenerator,
        relation: BaseRelation,
        *,
        kind: str | None = None,
    ) -> Any:
        """
        Run a macro in the node's transaction, and again when it was not the macro that failed.

        Called by such a macro it runs a part of that one's attempt.

        Args:
            body: A macro that may be run again: everything it does belongs to the transaction.
            relation: What the node builds.
            kind: "table" or "view", what the macro makes of it: a relation of the other kind
                steps aside, and is back if the macro fails. None if it takes what is there.

        Raises:
            StatementError: The last attempt's. What is run again: a lost race, and before COMMIT
                was sent a lost session; never an unknown outcome, nor what has committed a part
                of itself.
        """
        scope = self.connections.scope
        if scope is not None and scope.attempting:
            return body()
        if scope is not None:
            scope.catalog = relation.database or scope.catalog
            scope.builds = f"{relation.schema}.{relation.identifier}"
            if scope.resumes:
                assert body.context is not None
                keep_what_is_built(body.context)
        if put_back(self, relation) and scope is not None:
            scope.stale = True
        with making_way(self, relation, kind):
            return self._attempts(body, relation, scope)

    def _attempts(self, body: MacroGenerator, relation: BaseRelation, scope: Scope | None) -> Any:
        """Run a macro in a transaction, up to `retries` times more."""
        retries = scope.retries if scope is not None and scope.transaction else 0
        renewed = False
        for attempt in range(1, retries + 1):
            try:
                return self._attempt(body, relation, scope, renewed=renewed)
            except (StatementError, FailedToConnectError) as error:
                if isinstance(error, StatementError) and not error.retryable:
                    raise
                if scope is not None and scope.has_committed:
                    raise
                if getattr(error, "sibling", False):
                    self._turns.begin(str(relation))
                logger.info(f"attempt {attempt} of {retries + 1} is run again: {error}")
                # The session is fine after a lost race, and nobody knows after anything else.
                renewed = getattr(error, "sqlstate", None) != "40001"
            wait_before_attempt(attempt, first_ms=_FIRST_WAIT_MS, wait_ms_max=_WAIT_MS_MAX)
        return self._attempt(body, relation, scope, renewed=renewed)

    def _attempt(
        self, body: MacroGenerator, relation: BaseRelation, scope: Scope | None, *, renewed: bool
    ) -> Any:
        """Run a macro in a transaction, which an error rolls back; in a new session if so."""
        # What was read before a turn would clash with those who had theirs meanwhile.
        with self._turns.awaited(str(relation), before=self.connections.step_outside):
            try:
                if scope is not None:
                    scope.undone = False
                if renewed:
                    self.connections.reconnect(self.connections.get_thread_connection())
                self.connections.begin()
                if scope is not None and scope.grows and built_by_others(self, relation):
                    scope.stale = True
                with attempting(scope):
                    self._compile_again_if_stale(body, scope)
                    result = body()
                self.connections.commit()
            except Exception:
                self.connections.rollback_if_open()
                if scope is not None:
                    self.know_again(scope)
                self._drop_new_rows(scope)
                raise
        return result

    @available.parse_none
    def new_rows(self, relation: BaseRelation) -> BaseRelation:
        """
        Name the table that holds a node's new rows, before it deletes old ones.

        Args:
            relation: What the node builds.

        Returns:
            In a transaction always the same, since nobody else sees it; else one for each
            batch of each run, since others may be at work beside it.
        """
        scope = self.connections.scope
        identifier = f"{relation.identifier}__dbt_new"
        if scope is None or not scope.transaction:
            identifier += f"_{uuid.uuid4().hex}"
        found: BaseRelation = relation.incorporate(path={"identifier": identifier})  # type: ignore[no-untyped-call]
        if scope is not None:
            scope.new_rows = found
        return found

    def _drop_new_rows(self, scope: Scope | None) -> None:
        """Drop what a failed node has left where no rollback does."""
        if scope is None or scope.transaction or scope.new_rows is None:
            return
        try:
            self.execute(f"drop table if exists {scope.new_rows}")
        except DbtRuntimeError as error:
            logger.warning(f"{scope.new_rows} is not dropped, and nobody needs it: {error}")

    def _compile_again_if_stale(self, body: MacroGenerator, scope: Scope | None) -> None:
        """See that what the model's text rests on was read in the transaction that is open."""
        if scope is None or not (scope.stale or scope.compiled_in):
            return
        transaction_id = self.connections.transaction_id
        if scope.has_committed and not scope.stale:
            return
        if scope.has_committed:
            raise DbtRuntimeError(_NOT_COMPILED_AGAIN)
        if scope.stale or scope.compiled_in != transaction_id:
            assert body.context is not None
            compile_again(body.context)
            scope.stale, scope.compiled_in = False, transaction_id

    @available.parse_none
    def step_outside(self) -> None:
        """End what is open before something that belongs to no transaction."""
        self.connections.step_outside()

    def remove(self, relation: BaseRelation) -> None:
        """Take a relation out of the catalog at once, outside of any transaction."""
        self.execute_macro("txns_remove", kwargs={"relation": relation})

    def execute_macro(self, macro_name: str, *args: Any, **kwargs: Any) -> Any:
        """Run a macro; the one of `dbt run-operation` in a transaction of its own."""
        depth = getattr(self._depth, "value", 0)
        connection = self.connections.get_if_exists()
        operation = connection is not None and (connection.name or "").startswith(_OPERATION)
        if depth or not operation:
            return super().execute_macro(macro_name, *args, **kwargs)
        self._depth.value = depth + 1
        self.connections.enter_scope({}, f"operation.{macro_name}")
        try:
            result = super().execute_macro(macro_name, *args, **kwargs)
            self.connections.commit()
        finally:
            self.connections.leave_scope()
            self._depth.value = depth
        return result

    # What there is

    @classmethod
    def quote(cls, identifier: str) -> str:
        """Quote a name; dbt asks the class for the columns of a contract, dbt-spark has it not."""
        return f"`{identifier}`"

    def get_columns_in_relation(self, relation: BaseRelation) -> list[SparkColumn]:
        """Describe the columns of a table, a view or a temporary view; none if it is missing."""
        columns = super().get_columns_in_relation(relation)
        for column in columns:
            column.table_database = relation.database
        return columns

    def _get_columns_for_catalog(self, relation: BaseRelation) -> Iterable[dict[str, Any]]:
        for column in super()._get_columns_for_catalog(relation):
            yield {**column, "table_database": relation.database}

    def get_catalog(
        self,
        relation_configs: Iterable[RelationConfig],
        used_schemas: frozenset[tuple[str, str]],
    ) -> tuple[agate.Table, list[Exception]]:
        """Describe all relations for `dbt docs`; models may live in several catalogs."""
        # One schema at a time, as dbt-spark does it, which refuses more than one database.
        with executor(self.config) as pool:
            futures = [
                pool.submit_connected(  # type: ignore[no-untyped-call]
                    self,
                    f"{place.database}.{schema}",
                    self._get_one_catalog,
                    place,
                    [schema],
                    used_schemas,
                )
                for place, schemas in self._get_catalog_schemas(relation_configs).items()
                for schema in schemas
            ]
            return catch_as_completed(futures)

    @available.parse_list
    def key_bounds(
        self,
        relation: BaseRelation,
        keys: list[str],
        prefix: str,
        *,
        nulls_match: bool,
    ) -> list[str] | None:
        """
        Give conditions that name, in literals, between which values the keys of some rows are.

        Args:
            relation: The rows.
            keys: Names of columns; what else stands there has no bounds.
            prefix: Of the columns in the conditions, as "target.".
            nulls_match: Whether NULL is the same key as NULL.

        Returns:
            Each is met by every row that has a key of theirs; None where no row can have one.
        """
        columns = self.get_columns_in_relation(relation)
        names = Counter(column.name.lower() for column in columns)
        types = {
            column.name.lower(): column.dtype
            for column in columns
            if names[column.name.lower()] == 1
        }
        sql = bounds.query(str(relation), keys, types)
        with self.connections.exception_handler(sql):
            cursor = self.connections.get_thread_connection().handle.cursor()
            cursor.execute(sql)
            row = cursor.fetchone()
        return bounds.predicates(row, keys, types, prefix=prefix, nulls_match=nulls_match)

    def valid_incremental_strategies(self) -> list[str]:
        """List what `incremental_strategy` may say."""
        return ["append", "delete+insert", "insert_overwrite", "merge", "microbatch", "update"]

    # Seeds

    @available.parse_none
    def load_seed(
        self, relation: BaseRelation, rows: agate.Table, columns: list[tuple[str, str]]
    ) -> tuple[str, TxnsResponse]:
        """
        Insert a seed's rows, with one statement where the session takes them as a view.

        Args:
            relation: The table, which has been created.
            rows: Of the file, in its order of columns.
            columns: Quoted names and Spark types.

        Returns:
            The statement, and what it did.
        """
        self.connections.begin()
        count = len(rows.rows)
        response = TxnsResponse(_message=f"INSERT {count}", code="INSERT", rows_affected=count)
        self.connections.note(response)
        return (self._insert(relation, rows, columns) if count else ""), response

    def _insert(
        self, relation: BaseRelation, rows: agate.Table, columns: list[tuple[str, str]]
    ) -> str:
        handle = self.connections.get_thread_connection().handle
        table = texts(rows)
        casts = ", ".join(
            f"cast(`{name}` as {kind})"
            for name, (_, kind) in zip(table.column_names, columns, strict=True)
        )
        sql = f"insert into {relation} select {casts} from "  # noqa: S608  (names)
        with self.connections.exception_handler(sql):
            uploaded = handle.upload(_SEED_VIEW, table)
        if uploaded:
            self.execute(sql + _SEED_VIEW)
            return sql + _SEED_VIEW
        with self.connections.exception_handler(sql):
            for values, parameters in literal_rows(table):
                handle.cursor().execute(sql + values, parameters)
        return sql + "values ..."

    @classmethod
    def convert_time_type(cls, agate_table: agate.Table, col_idx: int) -> str:  # noqa: ARG003  (dbt's own)
        """Times of a day are text: Spark has no type that Iceberg stores."""
        return "string"

    # Checks and tests

    def debug_query(self) -> None:
        """
        Check what `dbt debug` is asked for: Spark, the catalog, and whether it has transactions.

        Raises:
            DbtRuntimeError: What is missing, and what to do.
        """
        check(self)

    def run_sql_for_tests(self, sql: str, fetch: str, conn: Any) -> Any:
        """Run a statement of dbt's test suite, committed by itself."""
        cursor = conn.handle.cursor()
        cursor.execute(sql)
        if fetch == "one":
            return cursor.fetchone()
        return cursor.fetchall() if fetch == "all" else None
