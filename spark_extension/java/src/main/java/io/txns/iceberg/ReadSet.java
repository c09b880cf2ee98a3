package io.txns.iceberg;

import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;

/**
 * What a transaction has read: tables with their filters, names found absent, namespaces listed.
 *
 * <p>It only grows, also when the transaction rolls back to a savepoint: what was seen was seen.
 * Threads may add to it at once.
 */
final class ReadSet {
  private final Map<TableIdentifier, Expression> tables = new LinkedHashMap<>();
  private final Set<TableIdentifier> absent = new LinkedHashSet<>();
  private final Set<Namespace> listed = new LinkedHashSet<>();
  private final Set<String> unprotected = new LinkedHashSet<>();

  /** A table was read, or its metadata was. */
  synchronized void table(TableIdentifier table) {
    tables.put(table, Expressions.alwaysTrue());
  }

  /** Rows of a table that match a filter were read. */
  synchronized void filter(TableIdentifier table, Expression filter) {
    tables.merge(table, filter, Expressions::or);
  }

  /** A name was looked for and not found. */
  synchronized void absent(TableIdentifier table) {
    absent.add(table);
  }

  /** The tables of a namespace were listed. */
  synchronized void listed(Namespace namespace) {
    listed.add(namespace);
  }

  /** Something that the protocol does not protect was read; named for people. */
  synchronized void unprotected(String name) {
    unprotected.add(name);
  }

  synchronized boolean hasRead(TableIdentifier table) {
    return tables.containsKey(table);
  }

  /** The filter under which a table was read, for messages; null where it was not. */
  synchronized Expression filterOf(TableIdentifier table) {
    return tables.get(table);
  }

  synchronized boolean wasAbsent(TableIdentifier table) {
    return absent.contains(table);
  }

  synchronized boolean wasListed(Namespace namespace) {
    return listed.contains(namespace);
  }

  synchronized List<String> unprotected() {
    return List.copyOf(unprotected);
  }
}
