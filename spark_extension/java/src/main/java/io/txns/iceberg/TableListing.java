package io.txns.iceberg;

import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** The tables of a namespace: the catalog's, with what the log adds and takes away. */
final class TableListing {
  private final TxnHandle handle;

  TableListing(TxnHandle handle) {
    this.handle = handle;
  }

  /**
   * List a namespace.
   *
   * <p>Only tables that the log names as created or dropped are looked at one by one.
   *
   * @param running the transaction that looks, or null
   */
  List<TableIdentifier> list(Namespace namespace, Transaction running) {
    Set<TableIdentifier> tables = new LinkedHashSet<>(handle.delegate().listTables(namespace));
    Head head = running == null ? handle.log().loadIfExists() : running.head();
    long readTs = running == null ? head.upper() : running.readTs();
    if (head.exists()) {
      // The catalog's list is of now: what others have created or dropped since is in it, and
      // what was applied and tidied since it was made is in neither of it and the newest head.
      Head newest = handle.log().loadIfExists();
      Set<TableIdentifier> names = candidates(namespace, newest, readTs);
      names.addAll(candidates(namespace, head, readTs));
      tables.stream().filter(NameAside::is).forEach(names::add);
      for (TableIdentifier table : names) {
        if (isThere(table, head, readTs)) {
          tables.add(table);
        } else {
          tables.remove(table);
        }
      }
    }
    if (running != null) {
      tables.removeIf(running::drops);
      running.created().stream()
          .filter(table -> table.namespace().equals(namespace))
          .forEach(tables::add);
    }
    return List.copyOf(tables);
  }

  private Set<TableIdentifier> candidates(Namespace namespace, Head head, long readTs) {
    Set<TableIdentifier> candidates = new LinkedHashSet<>();
    List<Entry> entries = new ArrayList<>(head.state().entries());
    if (head.state().tidiedUpto() > readTs) {
      entries.addAll(handle.archive().between(readTs, head.state().tidiedUpto()));
    }
    for (Entry entry : entries) {
      for (Change change : entry.changes()) {
        boolean comesOrGoes =
            change.operation() == Operation.CREATE || change.operation() == Operation.DROP;
        if (comesOrGoes) {
          candidates.add(change.table());
        }
      }
    }
    if (head.state().tidiedUpto() > 0) {
      handle.archive().dropped().forEach(candidates::add);
    }
    candidates.removeIf(table -> !table.namespace().equals(namespace));
    return candidates;
  }

  private boolean isThere(TableIdentifier table, Head head, long readTs) {
    try {
      handle.tables().load(table, head, readTs);
      return true;
    } catch (NoSuchTableException e) {
      return false;
    } catch (TxnException e) {
      return e.kind() != ErrorKind.CONFLICT; // created after read_ts
    }
  }
}
