package io.txns.iceberg;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.function.IntPredicate;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.io.FileIO;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * An overwrite or a row delta that is not committed when its statement has changed nothing: then
 * the files that it was given are deleted, and no snapshot comes of it.
 */
final class ConditionalWrite<T extends SnapshotUpdate<?>> implements InvocationHandler {
  private static final Logger LOG = LoggerFactory.getLogger(ConditionalWrite.class);
  private static final Set<String> ADDING = Set.of("addFile", "addRows", "addDeletes");

  private final T operation;
  private final IntPredicate nothing;
  private final FileIO io;
  private final List<String> added = new ArrayList<>();

  private ConditionalWrite(T operation, IntPredicate nothing, FileIO io) {
    this.operation = operation;
    this.nothing = nothing;
    this.io = io;
  }

  /**
   * @param nothing tells from the number of files that the operation was given whether its
   *     statement has changed nothing
   */
  static <T extends SnapshotUpdate<?>> T of(
      Class<T> type, T operation, IntPredicate nothing, FileIO io) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            new ConditionalWrite<>(operation, nothing, io)));
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (ADDING.contains(method.getName()) && arguments[0] instanceof ContentFile<?> file) {
      added.add(file.location());
    }
    if (method.getName().equals("commit") && nothing.test(added.size())) {
      added.forEach(this::delete);
      return null;
    }
    try {
      Object result = method.invoke(operation, arguments);
      return result == operation ? proxy : result;
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private void delete(String location) {
    try {
      io.deleteFile(location);
    } catch (RuntimeException e) {
      LOG.warn("a file of a statement that changed nothing stays: {}", location, e);
    }
  }
}
