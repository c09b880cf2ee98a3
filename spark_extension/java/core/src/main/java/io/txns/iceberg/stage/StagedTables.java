package io.txns.iceberg.stage;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;

/**
 * What one transaction has staged, table by table, with its savepoints, and the files of what it
 * has dropped again. Its transaction holds the lock.
 */
public final class StagedTables {
  private final Writes writes;
  private final Map<TableIdentifier, StagedTable> staged = new LinkedHashMap<>();
  private final Map<String, Map<StagedTable, StagedTable.Point>> savepoints = new LinkedHashMap<>();
  private final List<StagedTable> unstaged = new ArrayList<>();
  private final List<StagedFiles> discarded = new ArrayList<>();

  /**
   * @param writes tells whose data files were written for a transaction
   */
  StagedTables(Writes writes) {
    this.writes = writes;
  }

  StagedTable get(TableIdentifier table) {
    return staged.get(table);
  }

  StagedTable computeIfAbsent(TableIdentifier table, Supplier<StagedTable> made) {
    return staged.computeIfAbsent(table, id -> made.get());
  }

  public Collection<StagedTable> all() {
    return staged.values();
  }

  /** What is to be committed. */
  public Map<TableIdentifier, StagedTable> changed() {
    Map<TableIdentifier, StagedTable> changed = new LinkedHashMap<>();
    staged.forEach(
        (table, changes) -> {
          if (changes.isChanged()) {
            changed.put(table, changes);
          }
        });
    return changed;
  }

  /** The same as it is now, for who looks at it without the lock. */
  public Map<TableIdentifier, StagedTable> still() {
    Map<TableIdentifier, StagedTable> still = changed();
    still.replaceAll((table, changes) -> changes.still());
    return still;
  }

  /** Whether what was to be committed then still is, and perhaps more: nothing was undone. */
  public boolean hasStill(Map<TableIdentifier, StagedTable> earlier) {
    Map<TableIdentifier, StagedTable> now = changed();
    return earlier.entrySet().stream()
        .allMatch(
            then ->
                now.containsKey(then.getKey()) && now.get(then.getKey()).hasStill(then.getValue()));
  }

  boolean creates(TableIdentifier table) {
    return staged.containsKey(table) && staged.get(table).isCreate();
  }

  boolean drops(TableIdentifier table) {
    return staged.containsKey(table) && isDropped(staged.get(table));
  }

  /** Tables that were dropped. */
  List<StagedTable> dropped() {
    return staged.values().stream().filter(StagedTables::isDropped).toList();
  }

  /** Tables that are there: some were created, maybe again, and nobody else sees them. */
  List<StagedTable> standing() {
    return staged.values().stream().filter(table -> !isDropped(table)).toList();
  }

  /** Keep a new table in memory; the catalog's atomic create comes with apply. */
  void create(TableIdentifier table, TableOperations real, TableMetadata first) {
    if (staged.containsKey(table) && !isDropped(staged.get(table))) {
      throw new AlreadyExistsException("Table already exists: %s", table);
    }
    StagedTable created = new StagedTable(table, real, first, true);
    staged.put(table, created);
    writes.note(created.written(created.snapshots()));
  }

  /** Forget a table that was created here; a savepoint may bring it back. */
  void unstage(TableIdentifier table) {
    unstaged.add(staged.remove(table));
  }

  /** Remember this moment under a name; a name used again hides the older one. */
  public void savepoint(String name) {
    savepoints.remove(name);
    Map<StagedTable, StagedTable.Point> points = new LinkedHashMap<>();
    staged.values().forEach(table -> points.put(table, table.point()));
    savepoints.put(name, points);
  }

  /**
   * Undo what was staged since a savepoint; the savepoint stays.
   *
   * @return the tables that were not staged then
   * @throws TxnException 3B001 for an unknown savepoint
   */
  Set<TableIdentifier> backTo(String name) {
    Map<StagedTable, StagedTable.Point> points = known(name);
    Set<TableIdentifier> gone = new LinkedHashSet<>();
    for (StagedTable table : List.copyOf(staged.values())) {
      StagedTable.Point point = points.get(table);
      discarded.add(StagedFiles.since(table, point == null ? List.of() : point.changes(), writes));
      if (point == null) {
        staged.remove(table.identifier());
        gone.add(table.identifier());
      }
    }
    points.forEach(
        (table, point) -> {
          table.backTo(point);
          staged.put(table.identifier(), table);
          unstaged.remove(table); // created before the savepoint and dropped after it
        });
    forgetSince(name, false);
    return gone;
  }

  /**
   * Forget a savepoint and those after it; what was staged stays.
   *
   * @throws TxnException 3B001 for an unknown savepoint
   */
  public void release(String name) {
    known(name);
    forgetSince(name, true);
  }

  private Map<StagedTable, StagedTable.Point> known(String name) {
    Map<StagedTable, StagedTable.Point> points = savepoints.get(name);
    if (points == null) {
      throw TxnException.invalidUsage(
          "3B001",
          String.format(
              "there is no such savepoint; savepoint=`%s` known=`%s`", name, savepoints.keySet()));
    }
    return points;
  }

  private void forgetSince(String name, boolean itself) {
    boolean after = false;
    for (String other : List.copyOf(savepoints.keySet())) {
      if (after || (itself && other.equals(name))) {
        savepoints.remove(other);
      }
      after = after || other.equals(name);
    }
  }

  /** Forget what was staged and delete nothing: it may have committed. */
  public void leave() {
    staged.clear();
    unstaged.clear();
  }

  /** Drop all that was staged; {@link #deleteDiscarded} deletes its files. */
  public void discard() {
    unstaged.addAll(staged.values());
    staged.clear();
  }

  /** Delete the files of what was dropped again: the outcome is known. */
  public void deleteDiscarded() {
    unstaged.forEach(table -> discarded.add(StagedFiles.since(table, List.of(), writes)));
    unstaged.clear();
    discarded.forEach(StagedFiles::delete);
    discarded.clear();
  }

  static boolean isDropped(StagedTable table) {
    return TableMark.isDropped(table.current().currentSnapshot());
  }
}
