package org.apache.iceberg.spark;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.HistoryEntry;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.SupportsNamespaces;

/**
 * A table whose history shows what statements did, and not the protocol's empty snapshots. Not final:
 * the suites spy on tables.
 */
class StatementSnapshots extends BaseTable {
  private StatementSnapshots(TableOperations operations, String name) {
    super(operations, name);
  }

  /** A catalog, whose tables are such tables. */
  static Catalog over(Catalog catalog) {
    return (Catalog)
        Proxy.newProxyInstance(
            StatementSnapshots.class.getClassLoader(),
            new Class<?>[] {Catalog.class, SupportsNamespaces.class},
            (proxy, method, arguments) -> {
              try {
                Object result = method.invoke(catalog, arguments);
                return method.getName().equals("loadTable") ? of((Table) result) : result;
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }

  private static Table of(Table table) {
    return table instanceof HasTableOperations operating
        ? new StatementSnapshots(operating.operations(), table.name())
        : table;
  }

  @Override
  public Iterable<Snapshot> snapshots() {
    return StreamSupport.stream(super.snapshots().spliterator(), false)
        .filter(snapshot -> !isOfTheProtocol(snapshot))
        .toList();
  }

  @Override
  public List<HistoryEntry> history() {
    Set<Long> shown =
        StreamSupport.stream(snapshots().spliterator(), false)
            .map(Snapshot::snapshotId)
            .collect(Collectors.toSet());
    return super.history().stream().filter(made -> shown.contains(made.snapshotId())).toList();
  }

  /** A statement's snapshot names its Spark application, also where it changed no row. */
  private static boolean isOfTheProtocol(Snapshot snapshot) {
    Map<String, String> summary = snapshot.summary();
    return DataOperations.APPEND.equals(snapshot.operation())
        && summary.containsKey("txns.commit-ts")
        && !summary.containsKey("spark.app.id");
  }
}
