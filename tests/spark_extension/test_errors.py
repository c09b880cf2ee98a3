from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from py4j.protocol import Py4JError
from pyspark.errors import AnalysisException, PySparkException

from txns_spark import errors
from txns_spark.errors import translated, translation

if TYPE_CHECKING:
    from collections.abc import Callable

CONDITIONS = {
    "TXNS_CONFLICT": errors.TransactionConflict,
    "TXNS_COMMIT_STATE_UNKNOWN": errors.CommitStateUnknown,
    "TXNS_INVALID_USAGE": errors.InvalidUsage,
    "TXNS_QUARANTINED": errors.Quarantined,
    "TXNS_FOREIGN_WRITE": errors.ForeignWrite,
    "TXNS_CORRUPT_LOG": errors.CorruptLog,
    "TXNS_UNSUPPORTED": errors.Unsupported,
}


class JavaClass:
    def __init__(self, name: str) -> None:
        self._name = name

    def getName(self) -> str:  # noqa: N802
        return self._name


class JavaThrowable:
    """What py4j hands out for a Java exception, as far as the translation looks at it."""

    def __init__(
        self, name: str, message: str, cause: JavaThrowable | None = None, **answers: Any
    ) -> None:
        self._name, self._message, self._cause, self._answers = name, message, cause, answers

    def getClass(self) -> JavaClass:  # noqa: N802
        return JavaClass(self._name)

    def getMessage(self) -> str:  # noqa: N802
        return self._message

    def getCause(self) -> JavaThrowable | None:  # noqa: N802
        return self._cause

    def __getattr__(self, method: str) -> Callable[[], Any]:
        def answer() -> Any:
            if method not in self._answers:
                raise Py4JError(f"Method {method}([]) does not exist")
            return self._answers[method]

        return answer


class JavaError(Exception):
    """Py4JJavaError needs a live gateway; the translation reads this attribute only."""

    def __init__(self, java_exception: JavaThrowable) -> None:
        super().__init__("An error occurred while calling o1.append")
        self.java_exception = java_exception


@pytest.mark.parametrize(("condition", "expected"), CONDITIONS.items())
def test_each_condition_has_its_class(condition: str, expected: type[Exception]) -> None:
    error = AnalysisException("what happened", errorClass=condition, messageParameters={})
    assert type(translation(error)) is expected


def test_conflict_carries_what_the_message_parameters_say() -> None:
    parameters = {
        "table": "nyc.t",
        "txnId": "a",
        "otherTxnId": "b",
        "otherEngine": "e",
        "otherComment": "nightly load",
        "leastTs": "1700000000001",
    }
    error = AnalysisException(
        "lost a race", errorClass="TXNS_CONFLICT", messageParameters=parameters
    )
    found = translation(error)
    assert isinstance(found, errors.TransactionConflict)
    assert (found.table, found.txn_id, found.other_txn_id) == ("nyc.t", "a", "b")
    assert (found.other_engine, found.other_comment) == ("e", "nightly load")
    assert found.least_ts == 1_700_000_000_001
    assert found.condition == "TXNS_CONFLICT"
    assert found.message == str(found)
    assert "lost a race" in found.message


def test_absent_parameters_are_none() -> None:
    error = AnalysisException("x", errorClass="TXNS_CONFLICT", messageParameters={"table": ""})
    found = translation(error)
    assert found is not None
    assert (found.table, found.txn_id, found.least_ts) == (None, None, None)


def test_condition_of_a_newer_jar_is_still_a_transaction_error() -> None:
    error = AnalysisException("x", errorClass="TXNS_NEW", messageParameters={})
    assert type(translation(error)) is errors.TransactionError


def test_sparks_own_errors_pass_unchanged() -> None:
    """42P01 is Spark's SQLSTATE for a missing table; that is no transaction's error."""
    error = AnalysisException("x", errorClass="TABLE_OR_VIEW_NOT_FOUND", messageParameters={})
    with pytest.raises(AnalysisException) as caught, translated():
        raise error
    assert caught.value is error


def test_other_exceptions_pass_unchanged() -> None:
    error = ValueError("x")
    with pytest.raises(ValueError, match="x") as caught, translated():
        raise error
    assert caught.value is error


def test_original_is_the_cause() -> None:
    error = AnalysisException("x", errorClass="TXNS_CONFLICT", messageParameters={})
    with pytest.raises(errors.TransactionConflict) as caught, translated():
        raise error
    assert caught.value.__cause__ is error


def test_cause_below_sparks_exception_is_found() -> None:
    """A failed job wraps the error; pyspark keeps the converted cause in _cause."""
    outer = PySparkException("job aborted", errorClass="JOB_ABORTED", messageParameters={})
    outer._cause = AnalysisException("x", errorClass="TXNS_CORRUPT_LOG", messageParameters={})
    assert isinstance(translation(outer), errors.CorruptLog)


@pytest.mark.parametrize(
    ("sqlstate", "expected"),
    [
        ("40001", errors.TransactionConflict),
        ("08007", errors.CommitStateUnknown),
        ("25P02", errors.InvalidUsage),
        ("42601", errors.InvalidUsage),
        ("3B001", errors.InvalidUsage),
        ("55000", errors.Quarantined),
        ("XX001", errors.CorruptLog),
        ("0A000", errors.Unsupported),
        ("ZZ000", errors.TransactionError),
    ],
)
def test_java_cause_without_a_condition_goes_by_sqlstate(
    sqlstate: str, expected: type[Exception]
) -> None:
    ours = JavaThrowable(
        "io.txns.iceberg.Conflict",
        "lost a race",
        getSqlState=sqlstate,
        getMessageParameters={"table": "nyc.t"},
    )
    outer = JavaThrowable("org.apache.spark.SparkException", "writing job aborted", ours)
    found = translation(JavaError(outer))
    assert type(found) is expected
    assert (found.message, found.sqlstate, found.table) == ("lost a race", sqlstate, "nyc.t")


def test_protocols_exception_is_read_without_get() -> None:
    """A DataFrame write surfaces TxnException itself, whose methods are not Spark's."""
    ours = JavaThrowable(
        "io.txns.iceberg.TxnException",
        "lost a race",
        condition="TXNS_CONFLICT",
        sqlState="40001",
        parameters={"otherTxnId": "b", "leastTs": "17"},
    )
    found = translation(JavaError(JavaThrowable("org.apache.spark.SparkException", "x", ours)))
    assert isinstance(found, errors.TransactionConflict)
    assert (found.sqlstate, found.other_txn_id, found.least_ts) == ("40001", "b", 17)


def test_java_exception_that_says_nothing_is_still_a_transaction_error() -> None:
    found = translation(JavaError(JavaThrowable("io.txns.iceberg.Broken", "why")))
    assert type(found) is errors.TransactionError
    assert (found.message, found.condition, found.sqlstate) == ("why", None, None)


def test_java_exception_of_somebody_else_is_none() -> None:
    inner = JavaThrowable("org.apache.iceberg.exceptions.CommitFailedException", "stale")
    assert translation(JavaError(JavaThrowable("java.lang.RuntimeException", "x", inner))) is None


def test_real_java_exceptions_are_translated(run_script: Callable[[str], str]) -> None:
    """Spark's own AnalysisException with our condition, thrown in a real JVM and wrapped in one."""
    printed = run_script(
        """
        from py4j.protocol import Py4JJavaError
        from pyspark.sql import SparkSession
        from txns_spark.errors import TransactionConflict, translated

        spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", False)
        spark = spark.getOrCreate()
        jvm = spark._jvm
        converters = getattr(jvm, "scala.jdk.javaapi.CollectionConverters")
        none = jvm.scala.Option.empty()
        parameters = jvm.java.util.HashMap()
        parameters.put("table", "nyc.t")
        parameters.put("leastTs", "17")
        scala_map = getattr(jvm, "org.apache.spark.api.python.PythonUtils").toScalaMap(parameters)
        contexts = spark._sc._gateway.new_array(jvm.org.apache.spark.QueryContext, 0)
        error = jvm.org.apache.spark.sql.AnalysisException(
            "lost a race", none, none, none, jvm.scala.Option.apply("TXNS_CONFLICT"), scala_map,
            contexts,
        )
        for thrown in (error, jvm.java.lang.Error("wrapped", error)):
            try:
                with translated():
                    jvm.scala.util.Failure(thrown).get()
            except TransactionConflict as found:
                print("|".join([found.message, found.table, str(found.least_ts)]))
        """
    )
    assert printed.splitlines() == ["lost a race|nyc.t|17"] * 2
