package io.txns.iceberg.meta;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.Set;
import java.util.function.BiConsumer;
import org.apache.iceberg.SnapshotUpdate;

/**
 * A write by what a table holds. Where it is asked to leave no empty snapshot, it is not committed
 * when it was given nothing to add and nothing to take away.
 */
public final class ConditionalWrite<T extends SnapshotUpdate<?>> implements InvocationHandler {
  private static final Set<String> OF_ONE =
      Set.of(
          "addFile",
          "addRows",
          "addDeletes",
          "deleteFile",
          "removeRows",
          "removeDeletes",
          "overwriteByRowFilter");
  private static final String OF_MANY = "deleteFiles";

  private final T operation;
  private final boolean leavesNoEmptySnapshot;
  private final BiConsumer<String, Object[]> asked;
  private final Runnable commits;
  private boolean hasChanges;

  private ConditionalWrite(
      T operation,
      boolean leavesNoEmptySnapshot,
      BiConsumer<String, Object[]> asked,
      Runnable commits) {
    this.operation = operation;
    this.leavesNoEmptySnapshot = leavesNoEmptySnapshot;
    this.asked = asked;
    this.commits = commits;
  }

  /**
   * @param asked is told what the operation is asked for, by the name of its method
   * @param commits is told that it is about to be committed
   */
  public static <T extends SnapshotUpdate<?>> T of(
      Class<T> type,
      T operation,
      boolean leavesNoEmptySnapshot,
      BiConsumer<String, Object[]> asked,
      Runnable commits) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            new ConditionalWrite<>(operation, leavesNoEmptySnapshot, asked, commits)));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    hasChanges |= isChange(method.getName(), arguments);
    asked.accept(method.getName(), arguments);
    if (method.getName().equals("commit")) {
      commits.run();
      if (leavesNoEmptySnapshot && !hasChanges) {
        return null;
      }
    }
    try {
      Object result = method.invoke(operation, arguments);
      return result == operation ? proxy : result;
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private static boolean isChange(String method, Object[] arguments) {
    if (!method.equals(OF_MANY)) {
      return OF_ONE.contains(method);
    }
    for (Object files : arguments) {
      if (!((Collection<?>) files).isEmpty()) {
        return true;
      }
    }
    return false;
  }
}
