package io.txns.spark;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;

/** The tokens of a short SQL text, without comments, white space and trailing semicolons. */
final class StatementTokens {

  enum Kind {
    WORD,
    NUMBER,
    STRING,
    QUOTED_NAME,
    SYMBOL
  }

  /**
   * @param text what was meant: quotes removed, escapes resolved
   */
  record Token(Kind kind, String text) {
    boolean isWord(String word) {
      return kind == Kind.WORD && text.equalsIgnoreCase(word);
    }

    boolean isSymbol(char symbol) {
      return kind == Kind.SYMBOL && text.charAt(0) == symbol;
    }
  }

  /** More tokens than the longest statement has. */
  private static final int LIMIT = 64;

  private final String sql;
  private int position;

  private StatementTokens(String sql) {
    this.sql = sql;
  }

  /** All tokens, or empty when a quote or a comment does not end or there are too many. */
  static Optional<List<Token>> of(String sql) {
    StatementTokens scanner = new StatementTokens(sql);
    List<Token> tokens = new ArrayList<>();
    while (true) {
      if (!scanner.skipBlanks()) {
        return Optional.empty();
      }
      if (scanner.position >= sql.length()) {
        break;
      }
      Token token = scanner.next();
      if (token == null || tokens.size() == LIMIT) {
        return Optional.empty();
      }
      tokens.add(token);
    }
    while (!tokens.isEmpty() && tokens.get(tokens.size() - 1).isSymbol(';')) {
      tokens.remove(tokens.size() - 1);
    }
    return Optional.of(tokens);
  }

  /** The first word in upper case, or an empty string; cheap also for a long text. */
  static String firstWord(String sql) {
    StatementTokens scanner = new StatementTokens(sql);
    if (!scanner.skipBlanks() || scanner.position >= sql.length()) {
      return "";
    }
    if (!isWordStart(sql.charAt(scanner.position))) {
      return "";
    }
    return scanner.word().text().toUpperCase(Locale.ROOT);
  }

  /**
   * The SQL script that a {@code BEGIN ATOMIC ... END} is without its second word, each character
   * at its place; empty for any other text.
   */
  static Optional<String> atomicScript(String sql) {
    StatementTokens scanner = new StatementTokens(sql);
    if (!scanner.acceptWord("BEGIN")) {
      return Optional.empty();
    }
    int start = scanner.position;
    if (!scanner.acceptWord("ATOMIC")) {
      return Optional.empty();
    }
    String blank = " ".repeat("ATOMIC".length());
    String between = sql.substring(start, scanner.position - blank.length());
    return Optional.of(sql.substring(0, start) + between + blank + sql.substring(scanner.position));
  }

  private boolean acceptWord(String word) {
    return skipBlanks()
        && position < sql.length()
        && isWordStart(sql.charAt(position))
        && word().isWord(word);
  }

  /** Skips white space and comments; false when a comment does not end. */
  private boolean skipBlanks() {
    while (position < sql.length()) {
      if (Character.isWhitespace(sql.charAt(position))) {
        position++;
      } else if (sql.startsWith("--", position)) {
        int end = sql.indexOf('\n', position);
        position = end < 0 ? sql.length() : end + 1;
      } else if (sql.startsWith("/*", position)) {
        if (!skipBracketedComment()) {
          return false;
        }
      } else {
        return true;
      }
    }
    return true;
  }

  private boolean skipBracketedComment() {
    int depth = 0;
    while (position < sql.length()) {
      if (sql.startsWith("/*", position)) {
        depth++;
        position += 2;
      } else if (sql.startsWith("*/", position)) {
        depth--;
        position += 2;
        if (depth == 0) {
          return true;
        }
      } else {
        position++;
      }
    }
    return false;
  }

  private Token next() {
    char first = sql.charAt(position);
    if (isWordStart(first)) {
      return word();
    }
    if (Character.isDigit(first)) {
      return number();
    }
    if (first == '\'' || first == '"') {
      return quoted(first, Kind.STRING);
    }
    if (first == '`') {
      return quoted(first, Kind.QUOTED_NAME);
    }
    position++;
    return new Token(Kind.SYMBOL, String.valueOf(first));
  }

  private Token word() {
    int start = position;
    while (position < sql.length() && isWordPart(sql.charAt(position))) {
      position++;
    }
    return new Token(Kind.WORD, sql.substring(start, position));
  }

  private Token number() {
    int start = position;
    while (position < sql.length() && isWordPart(sql.charAt(position))) {
      position++;
    }
    String text = sql.substring(start, position);
    boolean digits = text.chars().allMatch(Character::isDigit);
    return new Token(digits ? Kind.NUMBER : Kind.WORD, text);
  }

  /** Text between quotes; the quote is doubled inside, and a backslash escapes in a string. */
  private Token quoted(char quote, Kind kind) {
    StringBuilder text = new StringBuilder();
    position++;
    while (position < sql.length()) {
      char c = sql.charAt(position++);
      boolean more = position < sql.length();
      if (c == '\\' && kind == Kind.STRING && more) {
        text.append(sql.charAt(position++));
      } else if (c != quote) {
        text.append(c);
      } else if (more && sql.charAt(position) == quote) {
        text.append(quote);
        position++;
      } else {
        return new Token(kind, text.toString());
      }
    }
    return null;
  }

  private static boolean isWordStart(char c) {
    return Character.isLetter(c) || c == '_';
  }

  private static boolean isWordPart(char c) {
    return Character.isLetterOrDigit(c) || c == '_';
  }
}
