package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.Collection;
import java.util.Collections;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import org.apache.iceberg.CatalogUtil;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.FileIO;

/**
 * A few tables of a catalog that stand still, and move together (docs/spec.md 11.3).
 *
 * <p>What is said of them, by their operations, is kept, and nobody else sees it before all of it
 * is committed. One thread's.
 */
public abstract class LockedRows implements AutoCloseable {
  /** How many files are written until the database hears again that one is at work. */
  private static final int AT_ONCE = 16;

  private final Map<TableIdentifier, RowOperations> rows = new LinkedHashMap<>();
  private final Map<TableIdentifier, TableMetadata> made = new LinkedHashMap<>();
  private final Set<TableIdentifier> unlocked;
  private final KnownMetadata known;
  private List<Moved> written = new ArrayList<>();
  private List<Moved> sent = List.of();
  private boolean isClosed;

  /**
   * What becomes of a row.
   *
   * @param from the file that it names; null where there is no row yet
   * @param to the file that it is to name
   */
  protected record Moved(TableIdentifier table, String from, String to) {}

  /**
   * @param tables those that were asked for, be they there or not
   * @param located the files that their rows name, where there are any
   * @param unlocked those that are there, and whose rows are not locked
   * @param io how the catalog reaches all of its files
   */
  protected LockedRows(
      Collection<TableIdentifier> tables,
      Map<TableIdentifier, String> located,
      Set<TableIdentifier> unlocked,
      FileIO io,
      KnownMetadata known) {
    this.unlocked = Set.copyOf(unlocked);
    this.known = known;
    tables.forEach(
        table -> rows.put(table, new RowOperations(table, io, located.get(table), known)));
  }

  /** Whether a table was asked for, be it there or not. */
  public boolean has(TableIdentifier table) {
    return rows.containsKey(table);
  }

  /**
   * Whether a table stands still. One that is there may not: who asks may read its row and not
   * write it, or somebody has made it since. It is read, and not moved.
   */
  public boolean isLocked(TableIdentifier table) {
    return has(table) && !unlocked.contains(table);
  }

  /**
   * Whether who asks has the right to make the row of a table that is not there.
   *
   * @throws RuntimeException of the database, which has done nothing
   */
  public boolean mayCreate(TableIdentifier table) {
    return true;
  }

  /** A table's operations, whose {@code current} is null where there is no table. */
  public TableOperations operations(TableIdentifier table) {
    checkLocked();
    atWork();
    RowOperations operations = rows.get(table);
    if (operations == null) {
      throw new IllegalArgumentException("its row is not locked: " + table);
    }
    return operations;
  }

  /** What has been said until now; to run it is to forget what has been said since. */
  public Runnable soFar() {
    Map<TableIdentifier, RowOperations.Said> said = new HashMap<>();
    rows.forEach((table, row) -> said.put(table, row.said()));
    return () -> said.forEach((table, before) -> rows.get(table).say(before));
  }

  /**
   * Let a table become what was made ready of it for a change, if its row still fits.
   *
   * @param ready null for nothing
   * @return false where it is to be made now
   */
  public boolean take(Ready ready, Object change) {
    checkLocked();
    return ready != null
        && ready.isFor(change)
        && isLocked(ready.table())
        && rows.get(ready.table()).take(ready);
  }

  /**
   * Write the new metadata of tables of which something was said; no row moves.
   *
   * @param changes say of which change each is made
   */
  public Map<TableIdentifier, Ready> makeReady(Map<TableIdentifier, Object> changes) {
    Map<TableIdentifier, RowOperations> said = said();
    write(said);
    Map<TableIdentifier, Ready> ready = new LinkedHashMap<>();
    written.forEach(
        moved ->
            ready.put(
                moved.table(),
                said.get(moved.table()).ready(moved.to(), changes.get(moved.table()))));
    written = new ArrayList<>(); // theirs who have them, and not to be undone here
    return ready;
  }

  /** Write files of what was said, some at once; those that there are go if one cannot be. */
  private void write(Map<TableIdentifier, RowOperations> said) {
    List<Moved> files = Collections.synchronizedList(written);
    List<Runnable> work = new ArrayList<>();
    said.forEach((table, row) -> work.add(() -> files.add(written(table, row))));
    for (int start = 0; start < work.size(); start += AT_ONCE) {
      atWork();
      SideBySide.run(work.subList(start, Math.min(start + AT_ONCE, work.size())));
    }
    written.sort(Comparator.comparing(moved -> moved.table().toString()));
  }

  private static Moved written(TableIdentifier table, RowOperations row) {
    return new Moved(table, row.location(), row.write());
  }

  /**
   * Write the new metadata, and move the rows: nobody sees it yet.
   *
   * @throws CommitFailedException a row is not what it was, or a lock is not to be had
   */
  public void prepare() {
    checkLocked();
    Map<TableIdentifier, RowOperations> unwritten = said();
    for (TableIdentifier table : List.copyOf(unwritten.keySet())) {
      Ready ready = unwritten.get(table).said().ready();
      if (ready != null) {
        written.add(new Moved(table, ready.from(), taken(ready)));
        unwritten.remove(table);
      }
    }
    write(unwritten);
    atWork();
    move(written);
  }

  /** A file that was written before, which is the swap's from then on. */
  private static String taken(Ready ready) {
    if (!ready.take()) {
      throw new CommitFailedException("what was written ahead is gone: %s", ready.table());
    }
    return ready.file();
  }

  /**
   * Commit the database's transaction.
   *
   * @throws RowsBusyException it is not committed, and will not be
   * @throws RuntimeException what was prepared may have been committed, or not
   */
  public void commit() {
    sent = written;
    written = new ArrayList<>(); // its thread may be stopped in it
    send();
    for (Moved moved : sent) {
      RowOperations row = rows.get(moved.table());
      TableMetadata now = row.made(moved.to());
      made.put(moved.table(), now);
      known.add(now);
    }
  }

  /** A table that was committed. */
  public TableMetadata made(TableIdentifier table) {
    return made.get(table);
  }

  /** What was sent has not been committed, and will not be. */
  public void refused() {
    written = new ArrayList<>(sent);
    sent = List.of();
  }

  /** End the database's transaction: what is not committed is undone, as far as that is known. */
  @Override
  public void close() {
    isClosed = true;
    end();
    written.forEach(this::remove);
    written = new ArrayList<>();
    made.forEach(this::removeOld);
  }

  /**
   * Tell the database that one is still at work: it ends who says nothing for too long, as one
   * would who is dead. What fails in that the next request tells.
   */
  public void atWork() {}

  private void checkLocked() {
    if (isClosed) {
      throw new IllegalStateException("the rows have been let go of");
    }
  }

  private void remove(Moved moved) {
    Cleaning.of(moved.to(), () -> rows.get(moved.table()).io().deleteFile(moved.to()));
  }

  /** As Iceberg's operations do after a commit, where a table says so. */
  private void removeOld(TableIdentifier table, TableMetadata now) {
    RowOperations row = rows.get(table);
    Cleaning.of(
        "versions of " + table,
        () -> CatalogUtil.deleteRemovedMetadataFiles(row.io(), row.stored(), now));
  }

  /** Those of which something was said, by their names. */
  private Map<TableIdentifier, RowOperations> said() {
    Map<String, TableIdentifier> named = new TreeMap<>();
    rows.keySet().forEach(table -> named.put(table.toString(), table));
    Map<TableIdentifier, RowOperations> said = new LinkedHashMap<>();
    for (TableIdentifier table : named.values()) {
      if (rows.get(table).isSaid()) {
        said.put(table, rows.get(table));
      }
    }
    return said;
  }

  /**
   * Let rows name what was made, each if it names what it was made of, or is none yet.
   *
   * @throws CommitFailedException one does not
   */
  protected abstract void move(List<Moved> moves);

  /** Let everybody see it; throws as {@link #commit} does. */
  protected abstract void send();

  /** Undo what has not been sent, and let go of the rows; throws nothing. */
  protected abstract void end();
}
