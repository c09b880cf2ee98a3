package io.txns.iceberg.table;

import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.catalog.TableIdentifier;

/** Names of tables that a purger has moved, to drop what nobody else can stand under. */
public final class NameAside {
  private static final String INFIX = "__txns_purge_";
  private static final int DIGITS = 12;
  private static final Pattern ASIDE =
      Pattern.compile("(.+)" + INFIX + "[0-9a-f]{" + DIGITS + "}", Pattern.DOTALL);

  private NameAside() {}

  /** A name that one purger moves a table to, and no other; {@code unique} is an id of its own. */
  public static TableIdentifier of(TableIdentifier table, String unique) {
    String digits = unique.substring(unique.length() - DIGITS);
    return TableIdentifier.of(table.namespace(), table.name() + INFIX + digits);
  }

  /** Whether a purger has moved a table here. */
  public static boolean is(TableIdentifier table) {
    return ASIDE.matcher(table.name()).matches();
  }

  /** The name that a table was moved from. */
  public static TableIdentifier before(TableIdentifier aside) {
    Matcher matcher = ASIDE.matcher(aside.name());
    if (!matcher.matches()) {
      throw new IllegalArgumentException("not a name aside: " + aside);
    }
    return TableIdentifier.of(aside.namespace(), matcher.group(1));
  }
}
