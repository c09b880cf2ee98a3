package io.txns.iceberg.meta;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.Collection;
import java.util.Set;
import org.apache.iceberg.SnapshotUpdate;

/**
 * An overwrite or a row delta that is not committed when it was given nothing to add and nothing to
 * take away: no snapshot comes of it.
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
  private boolean hasChanges;

  private ConditionalWrite(T operation) {
    this.operation = operation;
  }

  public static <T extends SnapshotUpdate<?>> T of(Class<T> type, T operation) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(), new Class<?>[] {type}, new ConditionalWrite<>(operation)));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    hasChanges |= isChange(method.getName(), arguments);
    if (method.getName().equals("commit") && !hasChanges) {
      return null;
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
