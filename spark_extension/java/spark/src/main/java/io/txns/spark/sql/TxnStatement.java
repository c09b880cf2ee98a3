package io.txns.spark.sql;

/** A statement about transactions, as {@link TxnStatementParser} has recognised it. */
public sealed interface TxnStatement {

  /** {@code BEGIN [TRANSACTION|WORK] [modes]}, {@code START TRANSACTION [modes]}. */
  record Begin(TxnModes modes) implements TxnStatement {}

  /** {@code COMMIT [WORK|TRANSACTION]}, {@code END [WORK|TRANSACTION]}. */
  record Commit() implements TxnStatement {}

  /** {@code ROLLBACK [WORK|TRANSACTION]}, {@code ABORT [WORK|TRANSACTION]}. */
  record Rollback() implements TxnStatement {}

  /** {@code SAVEPOINT name}. */
  record Savepoint(String name) implements TxnStatement {}

  /** {@code ROLLBACK [WORK|TRANSACTION] TO [SAVEPOINT] name}. */
  record RollbackTo(String name) implements TxnStatement {}

  /** {@code RELEASE [SAVEPOINT] name}. */
  record Release(String name) implements TxnStatement {}

  /** {@code SET TRANSACTION modes}. */
  record SetModes(TxnModes modes) implements TxnStatement {}

  /** {@code SET SESSION CHARACTERISTICS AS TRANSACTION modes}. */
  record SetDefaults(TxnModes modes) implements TxnStatement {}

  /** {@code SET TRANSACTION COMMENT 'text'}. */
  record Comment(String text) implements TxnStatement {}

  /** {@code SHOW TRANSACTION}. */
  record Show() implements TxnStatement {}

  /** Whether it begins or ends a transaction. */
  default boolean endsOrBegins() {
    return this instanceof Begin || this instanceof Commit || this instanceof Rollback;
  }

  /** Whether it may hold texts: an id, a comment, a timestamp. */
  default boolean hasTexts() {
    return this instanceof Begin || this instanceof SetModes || this instanceof Comment;
  }
}
