package io.txns.spark.sql;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Limits;
import io.txns.spark.sql.SqlTokens.Kind;
import io.txns.spark.sql.SqlTokens.Token;
import java.nio.charset.StandardCharsets;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;

/**
 * Recognises a {@link TxnStatement} in a whole text, never in its beginning: a small recursive
 * descent over its tokens.
 */
public final class TxnStatementParser {

  private static final Set<String> HEADS =
      Set.of(
          "BEGIN",
          "START",
          "COMMIT",
          "END",
          "ROLLBACK",
          "ABORT",
          "SAVEPOINT",
          "RELEASE",
          "SET",
          "SHOW");

  private final List<Token> tokens;
  private int position;

  private TxnStatementParser(List<Token> tokens) {
    this.tokens = tokens;
  }

  /**
   * The statement that {@code sql} is, or empty when it is none: comments, white space and trailing
   * semicolons do not count, anything else must match to the end.
   *
   * @throws io.txns.iceberg.TxnException 42601 when the text begins a transaction statement and its
   *     modes are wrong; the message names the word
   */
  public static Optional<TxnStatement> parse(String sql) {
    String head = SqlTokens.firstWord(sql);
    if (!HEADS.contains(head)) {
      return Optional.empty();
    }
    Optional<List<Token>> tokens = SqlTokens.of(sql);
    // A semicolon inside is more than one statement, or a script.
    if (tokens.isEmpty() || tokens.get().stream().anyMatch(token -> token.isSymbol(';'))) {
      return Optional.empty();
    }
    return Optional.ofNullable(new TxnStatementParser(tokens.get()).statement(head));
  }

  /** The statement, or null when the text is something else. */
  private TxnStatement statement(String head) {
    position = 1;
    return switch (head) {
      case "BEGIN" -> begin();
      case "START" -> accept("TRANSACTION") ? new TxnStatement.Begin(modes("START")) : null;
      case "COMMIT", "END" -> workThenEnd() ? new TxnStatement.Commit() : null;
      case "ABORT" -> workThenEnd() ? new TxnStatement.Rollback() : null;
      case "ROLLBACK" -> rollback();
      case "SAVEPOINT" -> savepoint();
      case "RELEASE" -> release();
      case "SET" -> set();
      case "SHOW" -> accept("TRANSACTION") && atEnd() ? new TxnStatement.Show() : null;
      default -> null;
    };
  }

  private TxnStatement begin() {
    if (acceptWork() || atEnd() || atMode()) {
      return new TxnStatement.Begin(modes("BEGIN"));
    }
    return null;
  }

  /** Two tokens that begin a mode and cannot begin a statement of a script. */
  private boolean atMode() {
    return at(0, "READ") && (at(1, "ONLY") || at(1, "WRITE"))
        || at(0, "ISOLATION") && at(1, "LEVEL")
        || at(0, "ID") && atText(1)
        || at(0, "AS") && at(1, "OF")
        || at(0, "COMMENT") && atText(1)
        || at(0, "BASIS");
  }

  private TxnStatement rollback() {
    acceptWork();
    if (atEnd()) {
      return new TxnStatement.Rollback();
    }
    if (!accept("TO")) {
      return null;
    }
    acceptKeyword("SAVEPOINT");
    return lastName().<TxnStatement>map(TxnStatement.RollbackTo::new).orElse(null);
  }

  private TxnStatement savepoint() {
    return lastName().<TxnStatement>map(TxnStatement.Savepoint::new).orElse(null);
  }

  private TxnStatement release() {
    acceptKeyword("SAVEPOINT");
    return lastName().<TxnStatement>map(TxnStatement.Release::new).orElse(null);
  }

  private TxnStatement set() {
    if (accept("TRANSACTION")) {
      // "SET transaction.x = 1" and "SET transaction" are about a Spark option of that name.
      if (atEnd() || kindAt(0) == Kind.SYMBOL) {
        return null;
      }
      if (accept("COMMENT")) {
        return setComment();
      }
      return new TxnStatement.SetModes(modes("SET TRANSACTION"));
    }
    if (accept("SESSION") && accept("CHARACTERISTICS") && accept("AS") && accept("TRANSACTION")) {
      TxnModes modes = modes("SET SESSION CHARACTERISTICS");
      if (modes.equals(TxnModes.NONE)) {
        throw syntax("SET SESSION CHARACTERISTICS AS TRANSACTION needs a mode");
      }
      if (!modes.areDefaults()) {
        throw syntax(
            "SET SESSION CHARACTERISTICS takes READ ONLY, READ WRITE and ISOLATION LEVEL;"
                + " ID, AS OF, BASIS and COMMENT belong to one transaction: put them after BEGIN");
      }
      return new TxnStatement.SetDefaults(modes);
    }
    return null;
  }

  private TxnStatement setComment() {
    String text = comment("SET TRANSACTION");
    if (!atEnd()) {
      throw bad("SET TRANSACTION COMMENT", "the end of the statement");
    }
    return new TxnStatement.Comment(text);
  }

  private String comment(String statement) {
    String text = text(statement, "a text in quotes after COMMENT");
    Limits.checkComment(text); // before anything has begun
    return text;
  }

  /** Modes to the end of the text, separated by commas or blanks. */
  private TxnModes modes(String statement) {
    TxnModes modes = TxnModes.NONE;
    boolean first = true;
    while (!atEnd()) {
      boolean comma = !first && acceptSymbol(',');
      if (comma && atEnd()) {
        throw syntax(statement + ": a mode is missing after the last comma");
      }
      modes = merge(modes, mode(statement));
      first = false;
    }
    return modes;
  }

  private TxnModes mode(String statement) {
    if (accept("READ")) {
      return readMode(statement);
    }
    if (accept("ISOLATION")) {
      expect("LEVEL", statement);
      return TxnModes.NONE.withIsolation(isolation(statement));
    }
    if (accept("ID")) {
      String expected = "the transaction's id in quotes after ID";
      String id = text(statement, expected);
      if (id.isBlank()) {
        throw syntax(statement + ": found '" + id + "', expected " + expected);
      }
      return TxnModes.NONE.withId(id);
    }
    if (accept("AS")) {
      expect("OF", statement);
      return TxnModes.NONE.withAsOf(timestamp(statement));
    }
    if (accept("BASIS")) {
      return basis(statement);
    }
    if (accept("COMMENT")) {
      return TxnModes.NONE.withComment(comment(statement));
    }
    throw bad(
        statement,
        "READ ONLY, READ WRITE, ISOLATION LEVEL, ID '...', AS OF, BASIS or COMMENT '...'");
  }

  private TxnModes readMode(String statement) {
    if (accept("ONLY")) {
      return TxnModes.NONE.withReadOnly(true);
    }
    if (accept("WRITE")) {
      return TxnModes.NONE.withReadOnly(false);
    }
    throw bad(statement, "ONLY or WRITE after READ");
  }

  private Isolation isolation(String statement) {
    if (accept("SNAPSHOT")) {
      return Isolation.SNAPSHOT;
    }
    if (accept("SERIALIZABLE")) {
      return Isolation.SERIALIZABLE;
    }
    if (accept("STRICT")) {
      expect("SERIALIZABLE", statement);
      return Isolation.STRICT_SERIALIZABLE;
    }
    if (accept("REPEATABLE")) {
      expect("READ", statement);
      return Isolation.parse("REPEATABLE READ");
    }
    if (accept("READ")) {
      if (accept("COMMITTED")) {
        return Isolation.parse("READ COMMITTED");
      }
      expect("UNCOMMITTED", statement);
      return Isolation.parse("READ UNCOMMITTED");
    }
    throw bad(statement, "STRICT SERIALIZABLE, SERIALIZABLE or SNAPSHOT");
  }

  private TxnModes basis(String statement) {
    String basis = timestamp(statement);
    Long timeoutMs = null;
    if (accept("TIMEOUT")) {
      if (kindAt(0) != Kind.NUMBER) {
        throw bad(statement, "a number of seconds after TIMEOUT");
      }
      timeoutMs = seconds(take().text());
      if (!accept("SECOND")) {
        expect("SECONDS", statement);
      }
    }
    return TxnModes.NONE.withBasis(basis, timeoutMs);
  }

  private static long seconds(String digits) {
    try {
      return Math.multiplyExact(Long.parseLong(digits), 1000L);
    } catch (ArithmeticException | NumberFormatException e) {
      throw syntax("TIMEOUT " + digits + " SECONDS is too long");
    }
  }

  private String timestamp(String statement) {
    boolean literal = accept("TIMESTAMP");
    if (!literal && kindAt(0) == Kind.NUMBER) {
      return take().text();
    }
    return text(statement, "a timestamp: milliseconds, or a text in quotes");
  }

  private static TxnModes merge(TxnModes said, TxnModes more) {
    boolean twice =
        said.readOnly() != null && more.readOnly() != null
            || said.isolation() != null && more.isolation() != null
            || said.id() != null && more.id() != null
            || said.asOf() != null && more.asOf() != null
            || said.basis() != null && more.basis() != null
            || said.comment() != null && more.comment() != null;
    if (twice) {
      throw syntax("a transaction mode is given twice");
    }
    return more.orElse(said);
  }

  // Texts

  private boolean atText(int ahead) {
    return kindAt(ahead) == Kind.STRING || at(ahead, "CAST");
  }

  /** A text in quotes, or {@code CAST(X'...' AS STRING)}, which no setting and no quote changes. */
  private String text(String statement, String expected) {
    if (accept("CAST")) {
      boolean isHex = acceptSymbol('(') && accept("X") && kindAt(0) == Kind.STRING;
      String text = isHex ? hexText(take().text(), statement, expected) : null;
      if (!isHex || !accept("AS") || !accept("STRING") || !acceptSymbol(')')) {
        throw bad(statement, expected);
      }
      return text;
    }
    if (kindAt(0) != Kind.STRING) {
      throw bad(statement, expected);
    }
    return take().text();
  }

  private static String hexText(String digits, String statement, String expected) {
    try {
      return new String(HexFormat.of().parseHex(digits), StandardCharsets.UTF_8);
    } catch (IllegalArgumentException e) {
      throw syntax(statement + ": found X'" + digits + "', expected " + expected);
    }
  }

  // Tokens

  private boolean atEnd() {
    return position >= tokens.size();
  }

  private Token take() {
    return tokens.get(position++);
  }

  private Kind kindAt(int ahead) {
    return position + ahead < tokens.size() ? tokens.get(position + ahead).kind() : null;
  }

  private boolean at(int ahead, String word) {
    return position + ahead < tokens.size() && tokens.get(position + ahead).isWord(word);
  }

  private boolean accept(String word) {
    if (at(0, word)) {
      position++;
      return true;
    }
    return false;
  }

  private boolean acceptSymbol(char symbol) {
    if (!atEnd() && tokens.get(position).isSymbol(symbol)) {
      position++;
      return true;
    }
    return false;
  }

  private boolean acceptWork() {
    return accept("WORK") || accept("TRANSACTION");
  }

  /** Accepts an optional keyword before a name; the last word is the name itself. */
  private void acceptKeyword(String word) {
    if (position + 1 < tokens.size()) {
      accept(word);
    }
  }

  private boolean workThenEnd() {
    acceptWork();
    return atEnd();
  }

  /** The name that ends the statement. */
  private Optional<String> lastName() {
    boolean name = kindAt(0) == Kind.WORD || kindAt(0) == Kind.QUOTED_NAME;
    return name && position == tokens.size() - 1 ? Optional.of(take().text()) : Optional.empty();
  }

  private void expect(String word, String statement) {
    if (!accept(word)) {
      throw bad(statement, word);
    }
  }

  private static TxnException syntax(String message) {
    return TxnException.invalidUsage("42601", message);
  }

  private TxnException bad(String statement, String expected) {
    String found = atEnd() ? "the end of the statement" : "'" + tokens.get(position).text() + "'";
    return syntax(statement + ": found " + found + ", expected " + expected);
  }
}
