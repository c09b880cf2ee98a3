package io.txns.iceberg;

import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.List;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** Turns the protocol's writers away, and lets them in again: the way out in an incident. */
final class OffSwitch {
  private static final Logger LOG = LoggerFactory.getLogger(OffSwitch.class);

  private final TxnHandle handle;
  private final CommitLoop loop;

  OffSwitch(TxnHandle handle, CommitLoop loop) {
    this.handle = handle;
    this.loop = loop;
  }

  /** Gives the number of tables with entries left. */
  int off() {
    append(EntryKind.OFF);
    return handle.apply();
  }

  /** Gives the number of tables that others wrote and that cannot be adopted. */
  int on() {
    append(EntryKind.ON);
    int left = 0;
    for (TableIdentifier table : tables()) {
      if (isForeign(table) && !adopts(table)) {
        left++;
      }
    }
    return left;
  }

  private void append(EntryKind kind) {
    String txnId = handle.clock().newTxnId();
    loop.append(
        new CommitLoop.Key(txnId, 0, true),
        (head, commitTs) -> Entry.withoutPayload(kind, head, commitTs, txnId, List.of()));
  }

  private boolean isForeign(TableIdentifier table) {
    try {
      DataTables.Loaded loaded = handle.loadNewestWithDropped(table);
      return loaded.registered() && loaded.view().stranger().isPresent();
    } catch (NoSuchTableException e) {
      return false; // gone meanwhile, or no table of data
    } catch (TxnException e) {
      LOG.warn("cannot look at {}", table, e);
      return e.kind() == ErrorKind.QUARANTINED;
    }
  }

  /** A table that cannot be adopted keeps no other from it. */
  private boolean adopts(TableIdentifier table) {
    try {
      handle.repairAdopt(table);
      return true;
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.CORRUPT_LOG) {
        throw e;
      }
      LOG.warn("{} is not adopted", table, e);
      return false;
    }
  }

  private List<TableIdentifier> tables() {
    List<TableIdentifier> tables = new ArrayList<>();
    if (!(handle.delegate() instanceof SupportsNamespaces catalog)) {
      return handle.delegate().listTables(Namespace.empty());
    }
    Deque<Namespace> waiting = new ArrayDeque<>(catalog.listNamespaces());
    while (!waiting.isEmpty()) {
      Namespace namespace = waiting.pop();
      waiting.addAll(catalog.listNamespaces(namespace));
      tables.addAll(handle.delegate().listTables(namespace));
    }
    tables.remove(handle.log().identifier());
    return tables;
  }
}
