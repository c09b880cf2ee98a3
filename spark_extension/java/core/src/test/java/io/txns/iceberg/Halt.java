package io.txns.iceberg;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * Kills this process, as {@code kill -9} does, at the n-th call that writes: before and after every
 * catalog swap, at every new file, at every deletion.
 */
public final class Halt {
  private static final AtomicInteger CALLS = new AtomicInteger();
  private static volatile int at = Integer.MAX_VALUE;

  private Halt() {}

  public static void at(int call) {
    at = call;
  }

  public static int calls() {
    return CALLS.get();
  }

  private static void tick() {
    if (CALLS.incrementAndGet() == at) {
      Runtime.getRuntime().halt(137);
    }
  }

  /** The real catalog, with a tick around every swap. */
  public static final class HaltingCatalog extends JdbcCatalog {
    @Override
    protected TableOperations newTableOps(TableIdentifier identifier) {
      return new HookedOperations(
          super.newTableOps(identifier),
          (real, base, next) -> {
            tick();
            real.commit(base, next);
            tick();
          });
    }
  }

  /** The real file access, with a tick at every write. */
  public static final class HaltingFileIO extends HadoopFileIO {
    public HaltingFileIO() {
      super(new Configuration());
    }

    @Override
    public OutputFile newOutputFile(String path) {
      tick();
      return super.newOutputFile(path);
    }

    @Override
    public void deleteFile(String path) {
      tick();
      super.deleteFile(path);
    }
  }
}
