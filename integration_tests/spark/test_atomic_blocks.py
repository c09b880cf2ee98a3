"""BEGIN ATOMIC ... END: a script that is one transaction, and scripts inside transactions."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from pyspark.errors import PySparkException

from integration_tests.checks import affected, count, one, refused, rows, state

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_commits_all_of_it(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """One call runs and commits the statements over all tables, with variables and control flow."""
    a, b = two_tables
    row = one(
        spark,
        f"""
        BEGIN ATOMIC
          DECLARE total BIGINT DEFAULT 0;
          INSERT INTO {a} VALUES (3, 5), (4, 6);
          SET total = (SELECT sum(v) FROM {a});
          IF total = 11 THEN
            INSERT INTO {b} VALUES (3, total);
          ELSE
            DELETE FROM {b};
          END IF;
        END
        """,
    )
    assert "committed" == row.state
    assert sorted(name.removeprefix("lake.") for name in (a, b)) == sorted(row.tables)
    assert [(1, 0), (2, 0), (3, 11)] == rows(other, f"SELECT * FROM {b}")
    assert 4 == count(other, a)
    assert "none" == state(spark)
    entries = spark.sql("CALL lake.system.transactions()").filter(f"txn_id = '{row.txn_id}'")
    assert 2 == entries.count()


@pytest.mark.parametrize(
    "failing",
    ["INSERT INTO {} VALUES ('no number', 1)", "SELECT raise_error('no')", "SELECT * FROM nowhere"],
    ids=["analysis of a write", "execution", "analysis of a query"],
)
def test_an_error_rolls_it_back(
    spark: SparkSession, two_tables: tuple[str, str], failing: str
) -> None:
    """The error arrives as it is, nothing is left, and the session is outside a transaction."""
    a, b = two_tables
    with pytest.raises(PySparkException):
        spark.sql(
            f"BEGIN ATOMIC DELETE FROM {a}; {failing.format(b)}; INSERT INTO {b} VALUES (3, 3); END"
        ).collect()
    assert ("none", 2, 2) == (state(spark), count(spark, a), count(spark, b))
    assert 1 == affected(spark, f"INSERT INTO {a} VALUES (3, 3)")


def test_a_handler_undoes_the_failed_statement_only(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """What a handler of the script takes care of does not end the transaction."""
    a, b = two_tables
    row = one(
        spark,
        f"""
        BEGIN ATOMIC
          DECLARE EXIT HANDLER FOR SQLEXCEPTION INSERT INTO {b} VALUES (9, 9);
          INSERT INTO {a} VALUES (3, 3);
          UPDATE {a} SET v = raise_error('no');
        END
        """,
    )
    assert "committed" == row.state
    assert [(1, 0), (2, 0), (3, 3)] == rows(spark, f"SELECT * FROM {a}")
    assert [(1, 0), (2, 0), (9, 9)] == rows(spark, f"SELECT * FROM {b}")


def test_a_lost_race_runs_it_again(
    spark: SparkSession, other: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Beside a writer of the same rows the block runs again, as often as needed, and is right."""
    a, b = two_tables
    rounds, failures = 8, []  # a block is lost to another one's COMMIT only, and has 10 attempts

    def count_up(session: SparkSession) -> None:
        try:
            for _ in range(rounds):
                session.sql(
                    f"BEGIN ATOMIC UPDATE {a} SET v = v + 1; "
                    f"INSERT INTO {b} SELECT 10 + max(v), 0 FROM {a}; END"
                )
        except Exception as e:  # noqa: BLE001 (told by the thread that waits)
            failures.append(e)

    threads = [threading.Thread(target=count_up, args=(one_,)) for one_ in (spark, other)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert [] == [str(failure) for failure in failures]
    assert [(1, 2 * rounds), (2, 2 * rounds)] == rows(spark, f"SELECT * FROM {a}")
    inserted = [row[0] for row in rows(spark, f"SELECT id FROM {b} WHERE id > 10")]
    assert [10 + n for n in range(1, 2 * rounds + 1)] == inserted


def test_inside_a_transaction_it_is_refused(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """BEGIN ATOMIC inside BEGIN is 25001; BEGIN, COMMIT and ROLLBACK inside of it are 2D000."""
    a, _ = two_tables
    spark.sql("BEGIN")
    with refused("25001"):
        spark.sql(f"BEGIN ATOMIC DELETE FROM {a}; END")
    spark.sql("ROLLBACK")
    for statement in ("BEGIN", "COMMIT", "ROLLBACK"):
        with refused("2D000"):
            spark.sql(f"BEGIN ATOMIC DELETE FROM {a}; EXECUTE IMMEDIATE '{statement}'; END")
        assert ("none", 2) == (state(spark), count(spark, a))


def test_an_id_runs_it_once(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """SET TRANSACTION ID before the block makes it exactly once."""
    a, _ = two_tables
    commits = []
    for _ in range(2):
        spark.sql(f"SET TRANSACTION ID 'block of {a}'")
        commits.append(one(spark, f"BEGIN ATOMIC UPDATE {a} SET v = v + 1; END").commit_ts)
    assert commits[0] == commits[1]
    assert [(1, 1), (2, 1)] == rows(spark, f"SELECT * FROM {a}")


def test_parameters_and_words(spark: SparkSession, two_tables: tuple[str, str]) -> None:
    """Parameters of the call reach the block; comments and white space do not matter."""
    a, _ = two_tables
    text = f"/* a */ begin -- b\n atomic\n UPDATE {a} SET v = :v WHERE id = :id; end;"
    assert "committed" == spark.sql(text, args={"v": 8, "id": 1}).collect()[0].state
    assert [(1, 8), (2, 0)] == rows(spark, f"SELECT * FROM {a}")
    with pytest.raises(PySparkException, match="PARSE_SYNTAX_ERROR"):
        spark.sql("BEGIN ATOMIC SELEC 1; END")
    assert "none" == state(spark)


def test_a_script_that_fails_aborts_its_transaction(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """A script is no statement of its own: when one of its writes fails, nobody commits half."""
    a, _ = two_tables
    spark.sql("BEGIN")
    with pytest.raises(PySparkException):
        spark.sql(f"BEGIN DELETE FROM {a}; INSERT INTO {a} VALUES ('no number', 1); END")
    assert "aborted" == state(spark)
    spark.sql("ROLLBACK")
    assert 2 == count(spark, a)


def test_statements_of_every_branch_of_a_script(
    spark: SparkSession, two_tables: tuple[str, str]
) -> None:
    """Loops, cases and handlers keep their meaning with statements of ours in them."""
    a, _ = two_tables
    spark.sql(
        f"""
        BEGIN
          DECLARE i INT DEFAULT 0;
          DECLARE EXIT HANDLER FOR DIVIDE_BY_ZERO INSERT INTO {a} VALUES (100, 0);
          WHILE i < 2 DO INSERT INTO {a} VALUES (10 + i, i); SET i = i + 1; END WHILE;
          REPEAT INSERT INTO {a} VALUES (20 + i, i); SET i = i + 1; UNTIL i > 3 END REPEAT;
          FOR r AS SELECT id FROM {a} WHERE id = 1
            DO INSERT INTO {a} VALUES (r.id + 29, 0); END FOR;
          CASE i WHEN 4 THEN INSERT INTO {a} VALUES (40, 0); ELSE DELETE FROM {a}; END CASE;
          CASE WHEN i = 5 THEN DELETE FROM {a}; ELSE INSERT INTO {a} VALUES (50, 0); END CASE;
          IF i = 9 THEN DELETE FROM {a};
          ELSEIF i = 4 THEN INSERT INTO {a} VALUES (60, 0);
          ELSE DELETE FROM {a}; END IF;
          l: LOOP INSERT INTO {a} VALUES (70, 0); LEAVE l; END LOOP;
          SELECT 1 / 0;
        END"""
    )
    found = [row[0] for row in rows(spark, f"SELECT id FROM {a}")]
    assert sorted([1, 2, 10, 11, 22, 23, 30, 40, 50, 60, 70, 100]) == sorted(found)
