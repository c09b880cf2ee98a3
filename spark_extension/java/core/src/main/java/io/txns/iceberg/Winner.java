package io.txns.iceberg;

/**
 * The transaction that came first, for the error of the one that lost to it.
 *
 * <p>Its comment may be anybody's words: they are shown in one line, without control characters,
 * and cut.
 *
 * @param txnId its id; empty where it is not one
 * @param engine who wrote it, as messages show it
 * @param comment the words of its user, as messages show them
 */
public record Winner(String txnId, String engine, String comment) {
  public static final Winner NOBODY = new Winner("", "", "");

  private static final int SHOWN_MAX = 200;

  public Winner {
    engine = shown(engine);
    comment = shown(comment);
  }

  /** Somebody's words as messages show them: in one line that is cut, without backticks. */
  static String shown(String words) {
    String start = words.substring(0, Math.min(words.length(), SHOWN_MAX + 1));
    String safe = Messages.of(start).replace('`', '\'');
    return safe.length() <= SHOWN_MAX ? safe : safe.substring(0, SHOWN_MAX - 3) + "...";
  }
}
