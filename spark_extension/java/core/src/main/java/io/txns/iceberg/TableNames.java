package io.txns.iceberg;

import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Identifiers as one text, and back: parts joined by dots, a part with a dot or a backtick in
 * backticks, as SQL quotes it.
 */
public final class TableNames {
  private TableNames() {}

  public static String text(TableIdentifier table) {
    return Stream.concat(Stream.of(table.namespace().levels()), Stream.of(table.name()))
        .map(TableNames::quoted)
        .collect(Collectors.joining("."));
  }

  /** The parts of such a text, the name last. */
  public static List<String> parts(String text) {
    List<String> parts = new ArrayList<>();
    StringBuilder part = new StringBuilder();
    boolean quoted = false;
    for (int i = 0; i < text.length(); i++) {
      char at = text.charAt(i);
      if (at == '`' && quoted && i + 1 < text.length() && text.charAt(i + 1) == '`') {
        part.append(at);
        i++;
      } else if (at == '`') {
        quoted = !quoted;
      } else if (at == '.' && !quoted) {
        parts.add(part.toString());
        part.setLength(0);
      } else {
        part.append(at);
      }
    }
    parts.add(part.toString());
    return parts;
  }

  private static String quoted(String part) {
    return part.contains(".") || part.contains("`") ? "`" + part.replace("`", "``") + "`" : part;
  }

  /**
   * A table's uuid as marks and records have it, in small letters; null where it has none. Others
   * may write it in capital ones, which pyiceberg does not keep apart.
   */
  public static String uuid(TableMetadata metadata) {
    return uuid(metadata.uuid());
  }

  /** The same of a uuid that somebody has written; null for null. */
  public static String uuid(String written) {
    return written == null ? null : written.toLowerCase(Locale.ROOT);
  }

  /** In some catalogs {@code T} and {@code t} are one name; in others both clash for once. */
  public static String folded(Object name) {
    return name.toString().toLowerCase(Locale.ROOT);
  }
}
