package io.txns.spark.sql;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import org.antlr.v4.runtime.CharStreams;
import org.apache.spark.sql.catalyst.parser.ParserUtils;
import org.apache.spark.sql.catalyst.parser.SqlBaseLexer;
import org.apache.spark.sql.catalyst.parser.UpperCaseCharStream;
import org.apache.spark.sql.internal.SQLConf;

/**
 * The tokens of a short SQL text, without comments, white space and trailing semicolons: those of
 * Spark's own lexer, so that a text is a transaction statement exactly where Spark would see one.
 */
public final class SqlTokens {

  enum Kind {
    WORD,
    NUMBER,
    STRING,
    QUOTED_NAME,
    SYMBOL
  }

  /**
   * @param text what was meant: quotes removed, escapes resolved as the session resolves them
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

  private final SqlBaseLexer lexer;

  private SqlTokens(String sql) {
    lexer = new SqlBaseLexer(new UpperCaseCharStream(CharStreams.fromString(sql)));
    lexer.removeErrorListeners();
  }

  /** All tokens, or empty when a quote or a comment does not end or there are too many. */
  static Optional<List<Token>> of(String sql) {
    SqlTokens scanner = new SqlTokens(sql);
    List<Token> tokens = new ArrayList<>();
    for (var found = scanner.next(); found != null; found = scanner.next()) {
      if (found.getType() == SqlBaseLexer.EOF) {
        while (!tokens.isEmpty() && tokens.get(tokens.size() - 1).isSymbol(';')) {
          tokens.remove(tokens.size() - 1);
        }
        return Optional.of(tokens);
      }
      if (tokens.size() == LIMIT) {
        return Optional.empty();
      }
      tokens.add(new Token(kind(found), meaning(found)));
    }
    return Optional.empty();
  }

  /** The first word in upper case, or an empty string; cheap also for a long text. */
  static String firstWord(String sql) {
    org.antlr.v4.runtime.Token first = new SqlTokens(sql).next();
    boolean isWord = first != null && kind(first) == Kind.WORD;
    return isWord ? first.getText().toUpperCase(Locale.ROOT) : "";
  }

  /**
   * The SQL script that a {@code BEGIN ATOMIC ... END} is without its second word, each character
   * at its place; empty for any other text.
   */
  public static Optional<String> atomicScript(String sql) {
    SqlTokens scanner = new SqlTokens(sql);
    if (!isWord(scanner.next(), "BEGIN")) {
      return Optional.empty();
    }
    org.antlr.v4.runtime.Token atomic = scanner.next();
    if (!isWord(atomic, "ATOMIC")) {
      return Optional.empty();
    }
    // The lexer counts code points.
    int start = sql.offsetByCodePoints(0, atomic.getStartIndex());
    int end = start + atomic.getText().length();
    return Optional.of(sql.substring(0, start) + " ".repeat(end - start) + sql.substring(end));
  }

  /** The next token that counts, EOF at the end; null where Spark's parser will refuse the text. */
  private org.antlr.v4.runtime.Token next() {
    org.antlr.v4.runtime.Token found = lexer.nextToken();
    while (found.getChannel() != org.antlr.v4.runtime.Token.DEFAULT_CHANNEL) {
      found = lexer.nextToken();
    }
    boolean refused = lexer.has_unclosed_bracketed_comment || name(found).equals("UNRECOGNIZED");
    return refused ? null : found;
  }

  private static boolean isWord(org.antlr.v4.runtime.Token found, String word) {
    return found != null && kind(found) == Kind.WORD && found.getText().equalsIgnoreCase(word);
  }

  /** By name: the numbers of tokens may differ between Spark's patch releases. */
  private static String name(org.antlr.v4.runtime.Token found) {
    String name = SqlBaseLexer.VOCABULARY.getSymbolicName(found.getType());
    return name == null ? "" : name;
  }

  private static Kind kind(org.antlr.v4.runtime.Token found) {
    return switch (name(found)) {
      case "EOF" -> Kind.SYMBOL;
      case "STRING_LITERAL" -> Kind.STRING;
      case "DOUBLEQUOTED_STRING" ->
          SQLConf.get().doubleQuotedIdentifiers() ? Kind.QUOTED_NAME : Kind.STRING;
      case "BACKQUOTED_IDENTIFIER" -> Kind.QUOTED_NAME;
      case "INTEGER_VALUE" -> Kind.NUMBER;
      default -> isWordStart(found.getText().codePointAt(0)) ? Kind.WORD : Kind.SYMBOL;
    };
  }

  private static boolean isWordStart(int first) {
    return Character.isLetterOrDigit(first) || first == '_';
  }

  private static String meaning(org.antlr.v4.runtime.Token found) {
    Kind kind = kind(found);
    if (kind == Kind.STRING) {
      return SQLConf.get().escapedStringLiterals()
          ? ParserUtils.stringWithoutUnescape(found)
          : ParserUtils.string(found);
    } else if (kind == Kind.QUOTED_NAME) {
      String quote = found.getText().substring(0, 1);
      String inside = found.getText().substring(1, found.getText().length() - 1);
      return inside.replace(quote + quote, quote);
    }
    return found.getText();
  }
}
