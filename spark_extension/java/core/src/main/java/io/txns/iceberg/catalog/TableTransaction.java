package io.txns.iceberg.catalog;

import io.txns.iceberg.meta.Compaction;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.PendingUpdate;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.Table;
import org.apache.iceberg.Transaction;
import org.apache.iceberg.Transactions;
import org.apache.iceberg.metrics.MetricsReporter;

/**
 * Iceberg's own transaction on one table. It commits at once what several operations made, and is
 * an append where nothing but appends was asked of it, be it through the table that it shows.
 */
final class TableTransaction implements InvocationHandler {
  private static final Set<String> APPENDS = Set.of("newAppend", "newFastAppend");

  private final Consumer<String> begins;
  private final Transaction real;
  private final TxnTableOperations operations;
  private volatile boolean onlyAppends = true;

  private TableTransaction(
      String name,
      Consumer<String> begins,
      TxnTableOperations operations,
      MetricsReporter reporter) {
    this.begins = begins;
    this.operations = operations;
    this.real =
        Transactions.newTransaction(
            name, new AppendOperations(operations, () -> onlyAppends), reporter);
  }

  /**
   * @param begins told of each operation that it begins, by the name of the table's method
   */
  static Transaction of(
      String name,
      Consumer<String> begins,
      TxnTableOperations operations,
      MetricsReporter reporter) {
    return proxy(Transaction.class, new TableTransaction(name, begins, operations, reporter));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (isOperation(method)) {
      begins(method.getName());
    }
    Object result = call(real, asked(method), arguments);
    if (result instanceof RewriteFiles rewrite) {
      return Compaction.of(rewrite, real.table());
    }
    return result instanceof Table shown ? tableOf((Transaction) proxy, shown) : result;
  }

  /**
   * What it is asked for, or an append that merges no manifests of other steps of it: their rows
   * may get other ids yet.
   */
  private Method asked(Method method) throws NoSuchMethodException {
    return method.getName().equals("newAppend") && operations.current().formatVersion() >= 3
        ? Transaction.class.getMethod("newFastAppend")
        : method;
  }

  private void begins(String operation) {
    onlyAppends &= APPENDS.contains(operation);
    begins.accept(operation);
  }

  /** The table as it stands in the transaction: its operations are asked of {@code steps}. */
  private static Table tableOf(Transaction steps, Table shown) {
    return proxy(
        Table.class,
        (proxy, method, arguments) ->
            isOperation(method)
                ? call(steps, Transaction.class.getMethod(method.getName()), arguments)
                : call(shown, method, arguments),
        HasTableOperations.class);
  }

  private static boolean isOperation(Method method) {
    return PendingUpdate.class.isAssignableFrom(method.getReturnType());
  }

  private static Object call(Object target, Method method, Object[] arguments) throws Throwable {
    try {
      return method.invoke(target, arguments);
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private static <T> T proxy(Class<T> type, InvocationHandler handler, Class<?>... others) {
    Class<?>[] types = new Class<?>[others.length + 1];
    types[0] = type;
    System.arraycopy(others, 0, types, 1, others.length);
    return type.cast(Proxy.newProxyInstance(type.getClassLoader(), types, handler));
  }
}
