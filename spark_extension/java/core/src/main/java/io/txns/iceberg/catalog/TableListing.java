package io.txns.iceberg.catalog;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.NameAside;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** The tables of a namespace: the catalog's, with what the log adds and takes away. */
public record TableListing(Catalog delegate, CommitLog log, Timeline timeline, DataTables tables) {

  /**
   * List a namespace.
   *
   * <p>Only tables that the log names as created or dropped are looked at one by one.
   *
   * @param running the transaction that looks, or null
   * @throws TxnException 55000 where the log that has been seen is missing: nobody knows what it
   *     has created and dropped
   */
  public List<TableIdentifier> list(Namespace namespace, Transaction running) {
    Set<TableIdentifier> listed = new LinkedHashSet<>(delegate.listTables(namespace));
    Head head = running == null ? log.loadIfEver() : running.writeSet().head();
    long readTs = running == null ? head.upper() : running.readTs();
    if (head.exists()) {
      // The catalog's list is of now: what others have created or dropped since is in it, and
      // what was applied and tidied since it was made is in neither of it and the newest head.
      Head newest = log.load();
      Set<TableIdentifier> names = new LinkedHashSet<>();
      Set<String> dropped =
          timeline.archive().dropped(newest).stream()
              .map(TableNames::folded)
              .collect(Collectors.toSet());
      listed.stream()
          .filter(name -> NameAside.is(name) || dropped.contains(TableNames.folded(name)))
          .forEach(names::add);
      Set<TableIdentifier> logged = comingOrGoing(namespace, head, newest, readTs).keySet();
      // Where the catalog folds names, its own letters may be others than the log's.
      Set<String> same = logged.stream().map(TableNames::folded).collect(Collectors.toSet());
      listed.stream().filter(name -> same.contains(TableNames.folded(name))).forEach(names::add);
      names.addAll(logged);
      for (TableIdentifier table : names) {
        if (isThere(table, head, readTs)) {
          listed.add(table);
        } else {
          listed.remove(table);
        }
      }
    }
    if (running != null) {
      listed.removeIf(
          table -> running.writeSet().dropped().stream().anyMatch(one -> isListedAs(table, one)));
      for (StagedTable one : running.writeSet().standing()) {
        if (one.identifier().namespace().equals(namespace)
            && listed.stream().noneMatch(table -> isListedAs(table, one))) {
          listed.add(one.identifier());
        }
      }
    }
    return List.copyOf(listed);
  }

  /** Whether a name in a list is a staged table's: a catalog may list it in its own letters. */
  private boolean isListedAs(TableIdentifier table, StagedTable staged) {
    return staged.identifier().equals(table)
        || (TableNames.folded(staged.identifier()).equals(TableNames.folded(table))
            && TableNames.uuid(staged.base()).equals(uuidOf(table)));
  }

  private String uuidOf(TableIdentifier table) {
    try {
      return delegate.loadTable(table).uuid().toString();
    } catch (NoSuchTableException e) {
      return "";
    }
  }

  /** What the log has created or dropped in a namespace: the first such deed above readTs. */
  private Map<TableIdentifier, Optional<Change>> comingOrGoing(
      Namespace namespace, Head head, Head newest, long readTs) {
    Map<TableIdentifier, Optional<Change>> names = new LinkedHashMap<>();
    List<Entry> entries = new ArrayList<>(head.state().entries());
    entries.removeIf(entry -> entry.commitTs() > readTs);
    entries.addAll(timeline.above(newest.state(), readTs));
    for (Entry entry : entries) {
      for (Change change : entry.changes()) {
        Operation deed = change.operation();
        if (deed == Operation.CREATE || deed == Operation.DROP) {
          Optional<Change> above = Optional.of(change).filter(any -> entry.commitTs() > readTs);
          names.merge(change.table(), above, (earlier, later) -> earlier.or(() -> later));
        }
      }
    }
    names.keySet().removeIf(table -> !table.namespace().equals(namespace));
    return names;
  }

  private boolean isThere(TableIdentifier table, Head head, long readTs) {
    try {
      tables.load(table, head, readTs);
      return true;
    } catch (NoSuchTableException e) {
      return false;
    } catch (TxnException e) {
      // A conflict: created later; again, where it was dropped before that.
      return e.kind() != ErrorKind.CONFLICT || wasThere(table, head, readTs);
    }
  }

  /** Whether a table that was created above readTs was there until it was dropped. */
  private boolean wasThere(TableIdentifier table, Head head, long readTs) {
    Head newest = log.load(); // after the table, or it knows less than that
    return comingOrGoing(table.namespace(), head, newest, readTs).entrySet().stream()
        .filter(logged -> TableNames.folded(logged.getKey()).equals(TableNames.folded(table)))
        .flatMap(logged -> logged.getValue().stream())
        .anyMatch(first -> isEndedBy(first, newest, readTs));
  }

  /** Whether it was there until then: who purges a dropped table drops it once more in the log. */
  private boolean isEndedBy(Change first, Head newest, long readTs) {
    return first.operation() == Operation.DROP
        && !timeline.wasDropped(newest.state(), first.uuid(), readTs);
  }
}
