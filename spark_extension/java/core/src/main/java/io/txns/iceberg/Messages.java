package io.txns.iceberg;

import java.util.List;
import java.util.regex.MatchResult;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What may stand in a message: no secret, and no character that moves a terminal.
 *
 * <p>{@code docs/golden/messages.json} has cases, which both Python packages have to tell alike.
 */
public final class Messages {
  private static final String HIDDEN = "***";
  private static final String QUOTING = " \"'`=\\";

  /** Of a long text, the characters that are shown of its beginning, and of its end. */
  private static final int HALF = 5000;

  /** How far a secret reaches, at most, with what tells that it is one. */
  private static final int AROUND = 1500;

  // Loops over characters, not over alternatives, for which Java takes a frame each.
  private static final String BARE = "[^\\s,;&\"'`)\\]}]";
  // What follows a comma at once, and is no option of its own, is still the value.
  private static final String VALUE =
      "(\"[^\"\\\\]*(?:\\\\.[^\"\\\\]*){0,99}\"|'[^'\\\\]*(?:\\\\.[^'\\\\]*){0,99}'"
          + ("|`[^`]*`|" + BARE + "+(?:,(?![\\w.-]{1,255}\\s*[=:])" + BARE + "+){0,99})");

  private static final Pattern SECRET =
      Pattern.compile(
          "secret|passw|passphrase|pwd|token|credential|authorization|signature|cookie"
              + "|(?:api|access|account|private|encryption).?key|[._-]key$"
              + "|(?:^|[._-])(?:pass|auth|sig|sas)$",
          Pattern.CASE_INSENSITIVE);
  // Names of columns are no secrets.
  private static final Pattern DATA_KEY =
      Pattern.compile(
          "(?:unique|primary|foreign|partition|sort|merge)[._-]key$", Pattern.CASE_INSENSITIVE);
  // Ids of transactions as our own messages have them: who asks for an outcome needs them as they
  // are.
  private static final Pattern ID =
      Pattern.compile(
          "\\b(?:txn|clashed_with)=`[^`]*`|\\b(?:BEGIN ID |txn_id=)'[^']*(?:''[^']*){0,99}'");
  // Greedy: a password that nobody has encoded may hold a slash or an @. Bounded: texts are long.
  private static final Pattern USER = Pattern.compile("(//?[^\\s/:@\"`]{0,255}):[^\\s\"`]{1,999}@");
  private static final Pattern USER_ALONE =
      Pattern.compile("(?<![^\\s\"'=(`])([\\w.+-]{1,255}):[^\\s/\"`@]{1,999}@");
  private static final Pattern NAMED =
      Pattern.compile("()\\b([A-Za-z_][\\w.-]{0,255})(\\s*=>?\\s*)" + VALUE);
  private static final Pattern QUOTED =
      Pattern.compile("([\"'`])([\\w.-]{1,256})(\\1\\s*(?:=>?|:)\\s*)" + VALUE);
  private static final Pattern ORACLE =
      Pattern.compile("(\\bjdbc:oracle:\\w{1,20}:[^\\s/@\"`]{1,255})/[^\\s\"`]{1,999}@");
  // As YAML has them: in a sentence, what stands before a colon names nothing.
  private static final Pattern LISTED =
      Pattern.compile(
          "((?:^|[\n{,;])[ \t-]{0,99})([A-Za-z_][\\w.-]{0,255})(:[ \t]+)(?!bearer\\b|basic\\b)"
              + VALUE,
          Pattern.CASE_INSENSITIVE);
  private static final Pattern COOKIE =
      Pattern.compile(
          "\\b(cookie\\s{0,9}[:=]\\s{0,9})[^\\s,;=\"'`]+=[^\\s,;\"'`]*(?:; ?[^\\s,;\"'`]+){0,99}",
          Pattern.CASE_INSENSITIVE);
  private static final Pattern BEARER =
      Pattern.compile("\\b(bearer|basic) +[A-Za-z0-9._~+/-]{8,}=*", Pattern.CASE_INSENSITIVE);

  private Messages() {}

  /**
   * A text as it may stand in an error: without secrets, printable, and not without end.
   *
   * <p>Of a long one its beginning and its end stand, where what was found and its cure are:
   * others' words may be millions of characters, and each looks for secrets in them.
   */
  public static String of(String text) {
    if (text == null || text.length() <= 2 * (HALF + AROUND)) {
      return text == null ? null : printable(masked(text));
    }
    // What tells a secret may lie beyond a cut.
    String head = masked(text.substring(0, HALF + AROUND));
    String tail = masked(text.substring(text.length() - HALF - AROUND));
    return printable(
        head.substring(0, Math.min(HALF, head.length()))
            + String.format(" [%d characters] ", text.length() - 2 * HALF)
            + tail.substring(Math.max(0, tail.length() - HALF)));
  }

  /**
   * Hides passwords in URIs, and the values of options that are secrets. Ids of transactions stay.
   */
  static String masked(String text) {
    StringBuilder shown = new StringBuilder(text.length());
    Matcher id = ID.matcher(text);
    int end = 0;
    while (id.find()) {
      shown.append(withoutSecrets(text.substring(end, id.start()))).append(id.group());
      end = id.end();
    }
    return shown.append(withoutSecrets(text.substring(end))).toString();
  }

  private static String withoutSecrets(String text) {
    String masked = USER.matcher(text).replaceAll("$1:" + HIDDEN + "@");
    masked = USER_ALONE.matcher(masked).replaceAll("$1:" + HIDDEN + "@");
    masked = ORACLE.matcher(masked).replaceAll("$1/" + HIDDEN + "@");
    masked = COOKIE.matcher(masked).replaceAll("$1" + HIDDEN);
    for (Pattern option : List.of(QUOTED, NAMED, LISTED)) {
      masked = option.matcher(masked).replaceAll(Messages::named);
    }
    return BEARER.matcher(masked).replaceAll("$1 " + HIDDEN);
  }

  private static String named(MatchResult found) {
    String name = found.group(2);
    if (!SECRET.matcher(name).find() || DATA_KEY.matcher(name).find()) {
      return Matcher.quoteReplacement(found.group());
    }
    char first = found.group(4).charAt(0);
    String around = first == '"' || first == '\'' || first == '`' ? String.valueOf(first) : "";
    return Matcher.quoteReplacement(
        found.group(1) + name + found.group(3) + around + HIDDEN + around);
  }

  /**
   * Writes control characters as {@code \n}, {@code \x1b}, {@code \u005cu202e}: C0, DEL and C1,
   * what ends a line in Unicode, what turns the direction of writing, and halves of pairs.
   */
  static String printable(String text) {
    StringBuilder printable = new StringBuilder(text.length());
    text.codePoints().forEach(character -> append(printable, character));
    return printable.toString();
  }

  /**
   * Writes a value as it stands behind {@code name=} in a line of a log: printable, and in double
   * quotes where it is empty, or has a space, a quote, {@code =} or a backslash; there a backslash
   * stands before double quotes and backslashes.
   */
  static String field(String value) {
    String shown = printable(value);
    if (!shown.isEmpty() && shown.chars().noneMatch(each -> QUOTING.indexOf(each) >= 0)) {
      return shown;
    }
    return '"' + shown.replace("\\", "\\\\").replace("\"", "\\\"") + '"';
  }

  private static void append(StringBuilder text, int character) {
    switch (character) {
      case '\n' -> text.append("\\n");
      case '\r' -> text.append("\\r");
      case '\t' -> text.append("\\t");
      default -> {
        if (Character.isISOControl(character)) {
          text.append(String.format("\\x%02x", character));
        } else if (movesText(character)) {
          text.append(String.format("\\u%04x", character));
        } else {
          text.appendCodePoint(character);
        }
      }
    }
  }

  private static boolean movesText(int character) {
    return character == 0x61c
        || character == 0x200e
        || character == 0x200f
        || character >= 0x2028 && character <= 0x202e
        || character >= 0x2066 && character <= 0x2069
        || character >= 0xd800 && character <= 0xdfff;
  }
}
