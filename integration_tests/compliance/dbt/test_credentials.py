"""Profiles that are refused: every command of dbt says so before it starts or asks Spark."""

from __future__ import annotations

from typing import Any

import pytest
from dbt.adapters.txns import TxnsCredentials
from dbt.adapters.txns.credentials import Method
from dbt_common.exceptions import DbtRuntimeError

SERVER = {"host": "lake.example.org"}


@pytest.mark.parametrize(
    ("profile", "message"),
    [
        ({"isolation": "dirty"}, "there is no such isolation level"),
        ({"retries": -1}, "retries must be a whole number, 0 or more: retries=-1"),
        ({"method": Method.THRIFT}, "needs `host`"),
        (SERVER, "host: not for method: session; remove it"),
        ({"use_ssl": True}, "use_ssl: not for method: session"),
        (SERVER | {"method": Method.CONNECT, "user": "mara"}, "user: not for method: connect"),
        (SERVER | {"method": Method.THRIFT, "token": "x"}, "token: not for method: thrift"),
        (
            SERVER | {"method": Method.THRIFT, "config": {"spark.master": "x"}, "uri": "x"},
            "config, uri: not for method: thrift; remove it.*spark.sql.catalog.lake",
        ),
    ],
)
def test_what_is_refused(profile: dict[str, Any], message: str) -> None:
    with pytest.raises(DbtRuntimeError, match=message):
        TxnsCredentials(**profile)


@pytest.mark.parametrize("method", list(Method))
def test_what_each_method_takes(method: Method) -> None:
    server = {} if method == Method.SESSION else SERVER
    TxnsCredentials(method=method, **server)


def test_nothing_shows_a_secret() -> None:
    uri = "jdbc:postgresql://db/lake?user=mara&password=s3cret"
    profile = TxnsCredentials(uri=uri, config={"spark.hadoop.fs.s3a.secret.key": "s3cret"})
    shown = dict(profile.connection_info())
    assert "jdbc:postgresql://db/lake?user=mara&password=***" == shown["uri"]
    assert "s3cret" not in repr(profile)
    served = TxnsCredentials(method=Method.CONNECT, host="host", token="s3cret")
    assert "s3cret" not in f"{served!r} {dict(served.connection_info())}"
