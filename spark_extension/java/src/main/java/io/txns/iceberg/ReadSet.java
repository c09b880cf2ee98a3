package io.txns.iceberg;

import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;

/**
 * What a transaction has read: tables with their filters, names found absent, namespaces listed;
 * and which tables it has written by what they hold.
 *
 * <p>A table is known by its name and by its uuid: either may be another one when somebody else
 * writes it. It only grows, also when the transaction rolls back to a savepoint: what was seen was
 * seen. Threads may add to it at once.
 */
final class ReadSet {
  private final Map<TableIdentifier, Expression> tables = new LinkedHashMap<>();
  private final Set<TableIdentifier> conditional = new LinkedHashSet<>();
  private final Map<String, TableIdentifier> names = new HashMap<>();
  private final Set<String> absent = new LinkedHashSet<>();
  private final Set<String> listed = new LinkedHashSet<>();
  private final Set<String> unprotected = new LinkedHashSet<>();

  /**
   * A table was read, or its metadata was.
   *
   * @param uuid null where it is not known
   */
  synchronized void table(TableIdentifier table, String uuid) {
    filter(table, uuid, Expressions.alwaysTrue());
  }

  /** Rows of a table that match a filter were read. */
  synchronized void filter(TableIdentifier table, String uuid, Expression filter) {
    tables.merge(table, filter, Expressions::or);
    named(uuid, table);
  }

  /** A table was written by what it holds, if only where that was nothing. */
  synchronized void conditionalWrite(TableIdentifier table, String uuid) {
    conditional.add(table);
    named(uuid, table);
  }

  private void named(String uuid, TableIdentifier table) {
    if (uuid != null) {
      names.putIfAbsent(uuid, table);
    }
  }

  /** A name was looked for and not found. */
  synchronized void absent(TableIdentifier table) {
    absent.add(folded(table));
  }

  /** The tables of a namespace were listed. */
  synchronized void listed(Namespace namespace) {
    listed.add(folded(namespace));
  }

  /** Something that the protocol does not protect was read; named for people. */
  synchronized void unprotected(String name) {
    unprotected.add(name);
  }

  /** The filter under which the table of a change was read; null where it was not. */
  synchronized Expression filterOf(Change change) {
    Expression filter = tables.get(change.table());
    TableIdentifier known = names.get(change.uuid());
    return filter == null && known != null ? tables.get(known) : filter;
  }

  /** Whether the table of a change was written by what it holds. */
  synchronized boolean hasConditionalWrite(Change change) {
    return conditional.contains(change.table()) || conditional.contains(names.get(change.uuid()));
  }

  synchronized boolean wasAbsent(TableIdentifier table) {
    return absent.contains(folded(table));
  }

  synchronized boolean wasListed(Namespace namespace) {
    return listed.contains(folded(namespace));
  }

  synchronized List<String> unprotected() {
    return List.copyOf(unprotected);
  }

  /** In some catalogs {@code T} and {@code t} are one name; in others both clash for once. */
  private static String folded(Object name) {
    return name.toString().toLowerCase(Locale.ROOT);
  }
}
