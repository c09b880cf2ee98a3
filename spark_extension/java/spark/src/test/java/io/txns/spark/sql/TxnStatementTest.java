package io.txns.spark.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import java.util.stream.Stream;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

class TxnStatementTest {

  private static final TxnModes NONE = TxnModes.NONE;

  private static TxnModes readOnly(boolean readOnly) {
    return NONE.withReadOnly(readOnly);
  }

  private static TxnModes isolation(Isolation isolation) {
    return NONE.withIsolation(isolation);
  }

  static Stream<Arguments> statements() {
    return Stream.of(
        Arguments.of("BEGIN", new TxnStatement.Begin(NONE)),
        Arguments.of("begin;", new TxnStatement.Begin(NONE)),
        Arguments.of("  Begin ; ; ", new TxnStatement.Begin(NONE)),
        Arguments.of("BEGIN TRANSACTION", new TxnStatement.Begin(NONE)),
        Arguments.of("BEGIN WORK", new TxnStatement.Begin(NONE)),
        Arguments.of("-- first\nBEGIN -- last", new TxnStatement.Begin(NONE)),
        Arguments.of("/* a /* nested */ one */ BEGIN /* x */ ;", new TxnStatement.Begin(NONE)),
        Arguments.of("BEGIN READ ONLY", new TxnStatement.Begin(readOnly(true))),
        Arguments.of("START TRANSACTION", new TxnStatement.Begin(NONE)),
        Arguments.of("START TRANSACTION READ WRITE", new TxnStatement.Begin(readOnly(false))),
        Arguments.of(
            "START TRANSACTION ISOLATION LEVEL SERIALIZABLE",
            new TxnStatement.Begin(isolation(Isolation.SERIALIZABLE))),
        Arguments.of(
            "BEGIN ISOLATION LEVEL STRICT SERIALIZABLE",
            new TxnStatement.Begin(isolation(Isolation.STRICT_SERIALIZABLE))),
        Arguments.of(
            "BEGIN WORK ISOLATION LEVEL READ COMMITTED",
            new TxnStatement.Begin(isolation(Isolation.SNAPSHOT))),
        Arguments.of(
            "BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY",
            new TxnStatement.Begin(NONE.withReadOnly(true).withIsolation(Isolation.SNAPSHOT))),
        Arguments.of(
            "BEGIN READ ONLY ISOLATION LEVEL SNAPSHOT",
            new TxnStatement.Begin(NONE.withReadOnly(true).withIsolation(Isolation.SNAPSHOT))),
        Arguments.of("BEGIN ID 'job-''7'''", new TxnStatement.Begin(id("job-'7'"))),
        Arguments.of("/* a /* b */ ? */ BEGIN -- c\\\n d", new TxnStatement.Begin(NONE)),
        Arguments.of("-- a\rBEGIN", new TxnStatement.Begin(NONE)),
        Arguments.of("BEGIN ID 'a\\n\\'\\u0024{x}'", new TxnStatement.Begin(id("a\n'${x}"))),
        Arguments.of("BEGIN ID r'a\\n'", new TxnStatement.Begin(id("a\\n"))),
        Arguments.of("BEGIN ID CAST(X'247b787d' AS STRING)", new TxnStatement.Begin(id("${x}"))),
        Arguments.of("SAVEPOINT `a``b -- ?`", new TxnStatement.Savepoint("a`b -- ?")),
        Arguments.of("BEGIN TRANSACTION ID \"a b\"", new TxnStatement.Begin(id("a b"))),
        Arguments.of(
            "BEGIN AS OF 1700000000000", new TxnStatement.Begin(NONE.withAsOf("1700000000000"))),
        Arguments.of(
            "BEGIN READ ONLY, AS OF TIMESTAMP '2024-01-02 03:04:05'",
            new TxnStatement.Begin(NONE.withReadOnly(true).withAsOf("2024-01-02 03:04:05"))),
        Arguments.of(
            "BEGIN BASIS 1700000000001 TIMEOUT 5 SECONDS, ID 'x'",
            new TxnStatement.Begin(NONE.withId("x").withBasis("1700000000001", 5000L))),
        Arguments.of(
            "START TRANSACTION BASIS 1 TIMEOUT 1 SECOND",
            new TxnStatement.Begin(NONE.withBasis("1", 1000L))),
        Arguments.of("COMMIT", new TxnStatement.Commit()),
        Arguments.of("commit work;", new TxnStatement.Commit()),
        Arguments.of("COMMIT TRANSACTION", new TxnStatement.Commit()),
        Arguments.of("END", new TxnStatement.Commit()),
        Arguments.of("END WORK", new TxnStatement.Commit()),
        Arguments.of("END TRANSACTION;", new TxnStatement.Commit()),
        Arguments.of("ROLLBACK", new TxnStatement.Rollback()),
        Arguments.of("ROLLBACK WORK", new TxnStatement.Rollback()),
        Arguments.of("ABORT", new TxnStatement.Rollback()),
        Arguments.of("ABORT TRANSACTION", new TxnStatement.Rollback()),
        Arguments.of("SAVEPOINT a", new TxnStatement.Savepoint("a")),
        Arguments.of("SAVEPOINT `a b`", new TxnStatement.Savepoint("a b")),
        Arguments.of("SAVEPOINT savepoint", new TxnStatement.Savepoint("savepoint")),
        Arguments.of("SAVEPOINT sa_savepoint_1", new TxnStatement.Savepoint("sa_savepoint_1")),
        Arguments.of("ROLLBACK TO a", new TxnStatement.RollbackTo("a")),
        Arguments.of("ROLLBACK TO SAVEPOINT a;", new TxnStatement.RollbackTo("a")),
        Arguments.of("ROLLBACK TRANSACTION TO a", new TxnStatement.RollbackTo("a")),
        Arguments.of("ROLLBACK TO savepoint", new TxnStatement.RollbackTo("savepoint")),
        Arguments.of("RELEASE a", new TxnStatement.Release("a")),
        Arguments.of("RELEASE SAVEPOINT a", new TxnStatement.Release("a")),
        Arguments.of("SET TRANSACTION READ ONLY", new TxnStatement.SetModes(readOnly(true))),
        Arguments.of(
            "SET TRANSACTION ISOLATION LEVEL READ UNCOMMITTED",
            new TxnStatement.SetModes(isolation(Isolation.SNAPSHOT))),
        Arguments.of(
            "BEGIN COMMENT 'monthly', READ ONLY",
            new TxnStatement.Begin(NONE.withReadOnly(true).withComment("monthly"))),
        Arguments.of(
            "SET TRANSACTION COMMENT 'monthly; correction -- 3'",
            new TxnStatement.Comment("monthly; correction -- 3")),
        Arguments.of(
            "SET SESSION CHARACTERISTICS AS TRANSACTION ISOLATION LEVEL SNAPSHOT, READ ONLY",
            new TxnStatement.SetDefaults(
                NONE.withReadOnly(true).withIsolation(Isolation.SNAPSHOT))),
        Arguments.of("SHOW TRANSACTION", new TxnStatement.Show()),
        Arguments.of("show\n transaction ;", new TxnStatement.Show()));
  }

  private static TxnModes id(String id) {
    return NONE.withId(id);
  }

  @ParameterizedTest
  @MethodSource("statements")
  void recognises(String sql, TxnStatement expected) {
    assertThat(TxnStatementParser.parse(sql)).contains(expected);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "",
        " ; ",
        "-- BEGIN",
        "/* BEGIN */",
        "/* not closed BEGIN",
        "BEGIN 'not closed",
        "BEGIN SELECT 1; END",
        "BEGIN SELECT 1; END;",
        "BEGIN END",
        "BEGIN\n  COMMIT;\nEND",
        "BEGIN TRANSACTION; SELECT 1; COMMIT",
        "BEGIN NOT ATOMIC SELECT 1; END",
        "BEGIN ATOMIC INSERT INTO t VALUES (1); END",
        "BEGIN DECLARE x INT; END",
        "BEGIN; SELECT 1",
        "BEGIN foo",
        "BEGIN READ",
        "BEGINNING",
        "START",
        "START JOB",
        "COMMIT foo",
        "COMMIT WORK AND CHAIN",
        "COMMIT; SELECT 1",
        "END LOOP",
        "ROLLBACK foo",
        "ROLLBACK TO",
        "ROLLBACK TO a b",
        "SAVEPOINT",
        "SAVEPOINT a b",
        "SAVEPOINT 'a'",
        "SAVEPOINT 1",
        "RELEASE",
        "RELEASE a b",
        "SET",
        "SET TRANSACTION",
        "SET transaction = 1",
        "SET transaction.mode = 1",
        "SET spark.sql.x = 'BEGIN'",
        "SET SESSION AUTHORIZATION x",
        "SHOW TRANSACTIONS",
        "SHOW TABLES",
        "SHOW TRANSACTION ISOLATION LEVEL",
        "EXPLAIN COMMIT",
        "SELECT 'COMMIT'",
        "SELECT 1 -- COMMIT",
        "INSERT INTO t VALUES (1)"
      })
  void leavesToSpark(String sql) {
    assertThat(TxnStatementParser.parse(sql)).isEmpty();
  }

  /** Before anything has begun. */
  @ParameterizedTest
  @ValueSource(strings = {"BEGIN COMMENT '%s'", "SET TRANSACTION COMMENT '%s'"})
  void refusesACommentThatTheLogDoesNotHold(String sql) {
    assertThat(TxnStatementParser.parse(String.format(sql, "a".repeat(4096)))).isPresent();
    assertThatThrownBy(() -> TxnStatementParser.parse(String.format(sql, "a".repeat(4097))))
        .hasMessageContaining("shorten it");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '#',
      value = {
        "BEGIN TRANSACTION foo | 'foo'",
        "START TRANSACTION READ MOSTLY | 'MOSTLY'",
        "START TRANSACTION ISOLATION LEVEL CHAOS | 'CHAOS'",
        "START TRANSACTION ISOLATION SERIALIZABLE | 'SERIALIZABLE'",
        "BEGIN ISOLATION LEVEL | the end of the statement",
        "BEGIN WORK ID 7 | '7'",
        "BEGIN WORK ID '' | ''",
        "BEGIN ID CAST(X'6' AS STRING) | X'6'",
        "BEGIN ID CAST(X'61' AS INT) | 'INT'",
        "BEGIN ID CAST('a' AS STRING) | 'a'",
        "BEGIN READ ONLY, | last comma",
        "BEGIN READ ONLY READ WRITE | twice",
        "BEGIN READ ONLY, , ID 'x' | ','",
        "BEGIN AS OF now | 'now'",
        "BEGIN BASIS 1 TIMEOUT x SECONDS | 'x'",
        "BEGIN BASIS 1 TIMEOUT 5 MINUTES | 'MINUTES'",
        "BEGIN BASIS 1 TIMEOUT 99999999999999999999 SECONDS | too long",
        "BEGIN READ ONLY COMMENT x | 'x'",
        "SET TRANSACTION COMMENT x | 'x'",
        "SET TRANSACTION COMMENT 'x' y | 'y'",
        "SET TRANSACTION LEVEL | 'LEVEL'",
        "SET SESSION CHARACTERISTICS AS TRANSACTION | needs a mode",
        "SET SESSION CHARACTERISTICS AS TRANSACTION ID 'x' | after BEGIN",
        "SET SESSION CHARACTERISTICS AS TRANSACTION COMMENT 'x' | after BEGIN"
      })
  void namesTheBadWord(String sql, String word) {
    assertThatThrownBy(() -> TxnStatementParser.parse(sql))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining(word)
        .extracting(e -> ((TxnException) e).sqlState())
        .isEqualTo("42601");
  }
}
