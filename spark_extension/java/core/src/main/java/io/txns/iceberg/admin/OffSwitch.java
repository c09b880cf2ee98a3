package io.txns.iceberg.admin;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.Messages;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.Stranger;
import java.util.ArrayDeque;
import java.util.Comparator;
import java.util.Deque;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Turns the protocol's writers away, and lets them in again: the way out in an incident. */
public record OffSwitch(Services services) {
  private static final TxnLogger LOG = TxnLogger.of(OffSwitch.class);

  /** Turns them away. */
  public void off() {
    append(EntryKind.OFF);
  }

  /** Gives the tables that others wrote and that cannot be adopted, each with the reason. */
  public Map<TableIdentifier, String> on() {
    append(EntryKind.ON);
    Map<TableIdentifier, String> left = new LinkedHashMap<>();
    for (TableIdentifier table : tables()) {
      try {
        Optional<Stranger> stranger = strangerOf(table);
        if (stranger.isPresent() && stranger.get().lost() != null) {
          left.put(table, stranger.get().reason()); // a person has to give those rows up
        } else if (stranger.isPresent()) {
          new Repairer(services).adopt(table);
        }
      } catch (RuntimeException e) { // one that is broken keeps no other from it
        LOG.warn(LogFields.of(table), "the table is not adopted", e);
        left.put(table, Messages.of(String.valueOf(e.getMessage()))); // of a catalog, too
      }
    }
    return left;
  }

  private void append(EntryKind kind) {
    String txnId = services.clock().newTxnId();
    services
        .loop()
        .append(
            CommitGroup.Key.fresh(txnId),
            (head, commitTs) -> head.entry(kind, commitTs, txnId, List.of()));
  }

  /** What somebody did to a table outside the protocol; errors are its own. */
  private Optional<Stranger> strangerOf(TableIdentifier table) {
    try {
      Loaded loaded = services.newest().loadWithDropped(table);
      return loaded.registered() ? loaded.stranger() : Optional.empty();
    } catch (NoSuchTableException e) {
      return Optional.empty(); // gone meanwhile, or no table of data
    } catch (TxnException e) {
      if (e.kind() == ErrorKind.CONFLICT || e.kind() == ErrorKind.UNSUPPORTED) {
        return Optional.empty(); // not there at its head yet, or another commit table's
      }
      throw e;
    }
  }

  /** The catalog's tables, and those that the log is to create. */
  private Set<TableIdentifier> tables() {
    Set<TableIdentifier> tables = new TreeSet<>(Comparator.comparing(TableIdentifier::toString));
    services.log().loadIfExists().state().entries().stream()
        .flatMap(entry -> entry.changes().stream())
        .filter(change -> change.operation() == Operation.CREATE)
        .forEach(change -> tables.add(change.table()));
    if (services.delegate() instanceof SupportsNamespaces catalog) {
      Deque<Namespace> waiting = new ArrayDeque<>(catalog.listNamespaces());
      while (!waiting.isEmpty()) {
        Namespace namespace = waiting.pop();
        waiting.addAll(catalog.listNamespaces(namespace));
        tables.addAll(services.delegate().listTables(namespace));
      }
    } else {
      tables.addAll(services.delegate().listTables(Namespace.empty()));
    }
    tables.remove(services.log().identifier());
    return tables;
  }
}
