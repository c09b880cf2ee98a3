"""
Iceberg tables in SQLAlchemy, with transactions that commit or do not.

::

    from sqlalchemy import create_engine
    from sqlalchemy_txns import run_transaction

    engine = create_engine("txns+connect://spark.example:15002/lake/shop")
    run_transaction(engine, lambda connection: connection.execute(...))

docs/sqlalchemy.md has the guide.
"""

from sqlalchemy_txns._retry import run_transaction, transactional
from sqlalchemy_txns.types import MAP, STRUCT, TIMESTAMP_NTZ

__all__ = ["MAP", "STRUCT", "TIMESTAMP_NTZ", "run_transaction", "transactional"]
