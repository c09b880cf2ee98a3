package io.txns.iceberg;

/** What a transaction id looks like (docs/spec.md 4.6). */
public final class TxnId {
  private static final int MAX_CHARACTERS = 255;

  private TxnId() {}

  /** Whether the log can hold an id: 1 to 255 printable characters, not only blanks. */
  public static boolean isOne(String id) {
    return id.length() <= 2 * MAX_CHARACTERS
        && id.codePointCount(0, id.length()) <= MAX_CHARACTERS
        && id.codePoints().noneMatch(Character::isISOControl)
        && !id.codePoints().allMatch(Character::isSpaceChar)
        && isUnicode(id);
  }

  /** Whether a text has no half of a pair without the other one. */
  public static boolean isUnicode(String text) {
    return text.codePoints()
        .noneMatch(one -> one >= Character.MIN_SURROGATE && one <= Character.MAX_SURROGATE);
  }
}
