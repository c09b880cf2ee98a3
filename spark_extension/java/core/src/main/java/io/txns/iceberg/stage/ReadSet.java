package io.txns.iceberg.stage;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Change;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectOutputStream;
import java.nio.ByteBuffer;
import java.util.Collections;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Set;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expression.Operation;
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
  /** So many filters of one table are taken for one of all its rows. */
  private static final int MANY = 1000;

  private final Map<TableIdentifier, Rows> tables = new LinkedHashMap<>();
  private final Set<TableIdentifier> lookedAt = new LinkedHashSet<>();
  private final Set<TableIdentifier> conditional = new LinkedHashSet<>();
  private final Map<TableIdentifier, Outstanding> outstanding = new LinkedHashMap<>();
  private final Map<String, Set<TableIdentifier>> names = new HashMap<>();
  private final Map<String, TableMetadata> bases = new HashMap<>();
  private final Set<String> absent = new LinkedHashSet<>();
  private final Set<String> listed = new LinkedHashSet<>();
  private final Set<String> unprotected = new LinkedHashSet<>();

  /**
   * Which rows of a table were read.
   *
   * @param expression they match it; its columns are names
   * @param caseSensitive whether the letters of those names count
   * @param schemaId of which of the table's schemas the names are: a transaction may have renamed
   *     columns, and gone back to a savepoint since
   */
  public record RowFilter(Expression expression, boolean caseSensitive, int schemaId) {
    /** All rows, and whatever tells of them. */
    public static final RowFilter EVERYTHING = new RowFilter(Expressions.alwaysTrue(), true, 0);

    /** The same in the columns of a state of its table: all rows where it has others. */
    public RowFilter within(TableMetadata base) {
      return isEverything() || schemaId == base.currentSchemaId() ? this : EVERYTHING;
    }

    boolean isEverything() {
      return expression.op() == Operation.TRUE;
    }

    /** What tells it from others; expressions do not compare, and their words may be alike. */
    private Object key() {
      try {
        ByteArrayOutputStream bytes = new ByteArrayOutputStream();
        new ObjectOutputStream(bytes).writeObject(expression);
        return List.of(ByteBuffer.wrap(bytes.toByteArray()), caseSensitive, schemaId);
      } catch (IOException e) {
        return new Object();
      }
    }
  }

  /**
   * What was read of one table.
   *
   * @param filters each once
   * @param unsaid objects of the table that plans read, or operations that write it by what it
   *     holds, which have not said yet by which rows
   */
  private record Rows(Map<Object, RowFilter> filters, Set<Object> unsaid) {
    Rows() {
      this(new LinkedHashMap<>(), Collections.newSetFromMap(new IdentityHashMap<>()));
    }

    boolean areAll() {
      return !unsaid.isEmpty()
          || filters.size() > MANY
          || filters.values().stream().anyMatch(RowFilter::isEverything);
    }
  }

  /** A table was loaded for the first time; {@code base} is what it was. */
  public synchronized void base(TableMetadata base) {
    bases.putIfAbsent(TableNames.uuid(base), base);
  }

  /** What a table was when it was loaded first; null where it was not. */
  public synchronized TableMetadata baseOf(String uuid) {
    return bases.get(uuid);
  }

  /**
   * A table was read as a whole.
   *
   * @param uuid null where it is not known
   */
  public synchronized void table(TableIdentifier table, String uuid) {
    filter(table, uuid, RowFilter.EVERYTHING);
  }

  /**
   * Rows of a table are about to be read, or written by what they are: all of them, for as long as
   * nobody says which.
   *
   * @param by the object of the table that is scanned, or what writes; each one is held for itself
   */
  public synchronized void unsaid(TableIdentifier table, String uuid, Object by) {
    rowsOf(table).unsaid().add(by);
    named(uuid, table);
  }

  /** It has been said now by which rows; {@link #filter} takes the filters. */
  public synchronized void said(TableIdentifier table, Object by) {
    Rows rows = tables.get(table);
    if (rows != null) {
      rows.unsaid().remove(by);
    }
  }

  /** Rows of a table that match a filter were read. */
  public synchronized void filter(TableIdentifier table, String uuid, RowFilter filter) {
    rowsOf(table).filters().putIfAbsent(filter.key(), filter);
    named(uuid, table);
  }

  private Rows rowsOf(TableIdentifier table) {
    return tables.computeIfAbsent(table, unused -> new Rows());
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

  /** The filters under which rows of the table of a change were read; none where none were. */
  public synchronized List<RowFilter> filtersOf(Change change) {
    List<Rows> rows = knownAs(change).stream().map(tables::get).filter(Objects::nonNull).toList();
    List<RowFilter> filters =
        rows.stream().flatMap(each -> each.filters().values().stream()).toList();
    return rows.stream().anyMatch(Rows::areAll) ? List.of(RowFilter.EVERYTHING) : filters;
  }

  /**
   * Whether somebody has yet to say by which rows the table of a change is read, or written by what
   * it holds: an overwrite says it when it is committed.
   */
  public synchronized boolean isUnsaid(Change change) {
    return knownAs(change).stream()
            .map(tables::get)
            .anyMatch(rows -> rows != null && !rows.unsaid().isEmpty())
        || hasConditionalWrite(change) && filtersOf(change).isEmpty();
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
