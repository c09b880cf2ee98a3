package io.txns.iceberg.meta;

import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashSet;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.ManageSnapshots;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.util.SnapshotUtil;

/**
 * Lets {@code main} be forwarded to a branch that holds all that it holds.
 *
 * <p>Iceberg asks for {@code main}'s snapshot among the branch's ancestors. But each write to a
 * branch puts an empty snapshot on {@code main} (invariant I2), and a forwarded {@code main} stands
 * on a copy: then an ancestor of the branch with the same manifests will do.
 */
public final class FastForward implements InvocationHandler {
  private final Table table;
  private final ManageSnapshots operation;

  public FastForward(Table table, ManageSnapshots operation) {
    this.table = table;
    this.operation = operation;
  }

  public ManageSnapshots proxy() {
    return (ManageSnapshots)
        Proxy.newProxyInstance(
            ManageSnapshots.class.getClassLoader(), new Class<?>[] {ManageSnapshots.class}, this);
  }

  @Override
  public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
    if (method.getName().equals("fastForwardBranch")
        && SnapshotRef.MAIN_BRANCH.equals(arguments[0])
        && table.currentSnapshot() != null
        && table.snapshot((String) arguments[1]) != null) {
      Snapshot to = table.snapshot((String) arguments[1]);
      if (holdsAllOfMain(to)) {
        operation.setCurrentSnapshot(to.snapshotId());
        return proxy;
      }
    }
    try {
      Object result = method.invoke(operation, arguments);
      return result == operation ? proxy : result;
    } catch (InvocationTargetException e) {
      throw e.getCause();
    }
  }

  private boolean holdsAllOfMain(Snapshot branch) {
    Snapshot main = table.currentSnapshot();
    Set<Long> ancestors = new HashSet<>(SnapshotUtil.ancestorIds(main, table::snapshot));
    if (ancestors.contains(branch.snapshotId())) {
      return false; // nothing to forward to: Iceberg answers
    }
    Set<String> manifests = manifests(main);
    for (Snapshot at : SnapshotUtil.ancestorsOf(branch.snapshotId(), table::snapshot)) {
      if (manifests(at).equals(manifests)) {
        return true;
      }
      if (ancestors.contains(at.snapshotId())) {
        return false;
      }
    }
    return false;
  }

  private Set<String> manifests(Snapshot snapshot) {
    return snapshot.allManifests(table.io()).stream()
        .map(ManifestFile::path)
        .collect(Collectors.toSet());
  }
}
