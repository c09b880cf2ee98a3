package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Change;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;

/**
 * What a transaction has read: tables with their filters, tables whose metadata alone was looked
 * at, names found absent, namespaces listed; and which tables it has written by what they hold.
 *
 * <p>A table is known by its uuid and by every name it was found under: it may have another one
 * when somebody else writes it. It only grows, also when the transaction rolls back to a savepoint:
 * what was seen was seen. Threads may add to it at once.
 */
public final class ReadSet {
  private final Map<TableIdentifier, Expression> tables = new LinkedHashMap<>();
  private final Set<TableIdentifier> lookedAt = new LinkedHashSet<>();
  private final Set<TableIdentifier> conditional = new LinkedHashSet<>();
  private final Map<TableIdentifier, Outstanding> outstanding = new LinkedHashMap<>();
  private final Map<String, Set<TableIdentifier>> names = new HashMap<>();
  private final Set<String> absent = new LinkedHashSet<>();
  private final Set<String> listed = new LinkedHashSet<>();
  private final Set<String> unprotected = new LinkedHashSet<>();

  /**
   * A table was read as a whole.
   *
   * @param uuid null where it is not known
   */
  public synchronized void table(TableIdentifier table, String uuid) {
    filter(table, uuid, Expressions.alwaysTrue());
  }

  /** Rows of a table that match a filter were read. */
  public synchronized void filter(TableIdentifier table, String uuid, Expression filter) {
    tables.merge(table, filter, Expressions::or);
    named(uuid, table);
  }

  /** A table's schema, properties or size were looked at, and perhaps none of its rows. */
  public synchronized void metadata(TableIdentifier table, String uuid) {
    lookedAt.add(table);
    named(uuid, table);
  }

  /** A table was written by what it holds, if only where that was nothing. */
  public synchronized void conditionalWrite(TableIdentifier table, String uuid) {
    conditional.add(table);
    named(uuid, table);
  }

  /**
   * Something was not applied to a table when it was loaded.
   *
   * @param commitTs of all of that, in ms
   */
  public synchronized void outstanding(TableIdentifier table, String uuid, Set<Long> commitTs) {
    outstanding.put(table, new Outstanding(uuid, Set.copyOf(commitTs)));
  }

  /**
   * The tables of which something was read that a head has no more, with the newest of what was
   * outstanding then and has left the head.
   *
   * @param standing the {@code commit_ts} in ms of the entries that the head has
   */
  public synchronized Map<TableIdentifier, Left> left(Set<Long> standing) {
    Map<TableIdentifier, Left> found = new LinkedHashMap<>();
    outstanding.forEach(
        (table, loaded) -> {
          if (tables.containsKey(table) || lookedAt.contains(table)) {
            loaded.commitTs().stream()
                .filter(ts -> !standing.contains(ts))
                .max(Long::compare)
                .ifPresent(newest -> found.put(table, new Left(loaded.uuid(), newest)));
          }
        });
    return found;
  }

  private record Outstanding(String uuid, Set<Long> commitTs) {}

  /** What a table, known by its uuid, is to show: a {@code commit_ts} in ms. */
  public record Left(String uuid, long newestTs) {}

  private void named(String uuid, TableIdentifier table) {
    if (uuid != null) {
      names.computeIfAbsent(uuid, id -> new LinkedHashSet<>()).add(table);
    }
  }

  /** A name was looked for and not found. */
  public synchronized void absent(TableIdentifier table) {
    absent.add(TableNames.folded(table));
  }

  /** The tables of a namespace were listed. */
  public synchronized void listed(Namespace namespace) {
    listed.add(TableNames.folded(namespace));
  }

  /** Something that the protocol does not protect was read; named for people. */
  public synchronized void unprotected(String name) {
    unprotected.add(name);
  }

  /** The filter under which rows of the table of a change were read; null where none were. */
  public synchronized Expression filterOf(Change change) {
    return knownAs(change).stream()
        .map(tables::get)
        .filter(Objects::nonNull)
        .reduce(Expressions::or)
        .orElse(null);
  }

  /**
   * The uuids of the tables whose rows were read.
   *
   * @param all whether all reads are validated, or only what was written by what it holds
   */
  public synchronized List<String> uuids(boolean all) {
    Set<TableIdentifier> read = all ? tables.keySet() : conditional;
    return names.entrySet().stream()
        .filter(known -> known.getValue().stream().anyMatch(read::contains))
        .map(Map.Entry::getKey)
        .toList();
  }

  /** Whether nothing was seen that somebody else could change but what tables look like. */
  public synchronized boolean isBlind() {
    return tables.isEmpty() && conditional.isEmpty() && absent.isEmpty() && listed.isEmpty();
  }

  /** Whether the metadata of the table of a change was looked at. */
  public synchronized boolean hasLookedAt(Change change) {
    return knownAs(change).stream().anyMatch(lookedAt::contains);
  }

  /** Whether the table of a change was written by what it holds. */
  public synchronized boolean hasConditionalWrite(Change change) {
    return knownAs(change).stream().anyMatch(conditional::contains);
  }

  /** The names under which the table of a change may have been noted here. */
  private Set<TableIdentifier> knownAs(Change change) {
    Set<TableIdentifier> known = new LinkedHashSet<>(names.getOrDefault(change.uuid(), Set.of()));
    known.add(change.table());
    return known;
  }

  public synchronized boolean wasAbsent(TableIdentifier table) {
    return absent.contains(TableNames.folded(table));
  }

  public synchronized boolean wasListed(Namespace namespace) {
    return listed.contains(TableNames.folded(namespace));
  }

  public synchronized List<String> unprotected() {
    return List.copyOf(unprotected);
  }
}
