package io.txns.iceberg;

import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * Stops this process at one point of the protocol and says so, {@code at <point>}, for a test that
 * then kills it with {@code kill -9}. {@link Halt} dies by itself, at every call of one process.
 *
 * <p>The catalog's options {@code kill.point} and {@code kill.skip} say where, and how often the
 * process comes past it before it stops.
 */
public final class KillPoints {
  private static final TableIdentifier COMMITS = TableIdentifier.of("txns", "commits");

  /** Where it stops; those of tidy are around its swap. */
  enum Point {
    STAGING,
    AFTER_SWAP,
    BETWEEN_APPLIES,
    BEFORE_TIDY,
    AFTER_TIDY
  }

  private static volatile Point point;
  private static final AtomicInteger LEFT_TO_SKIP = new AtomicInteger();

  /** What is applied of the entry to stop at; null before its swap. */
  private static volatile Applying applying;

  private KillPoints() {}

  private static void pass(Point here) {
    if (here == point && LEFT_TO_SKIP.getAndDecrement() <= 0) {
      stop();
    }
  }

  private static void stop() {
    System.out.println("at " + point);
    System.out.flush();
    try {
      new CountDownLatch(1).await();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private static void commitLog(TableOperations real, TableMetadata base, TableMetadata next) {
    Snapshot newest = next.currentSnapshot();
    String kind = newest == null ? "" : newest.summary().getOrDefault("txns.kind", "");
    if (kind.equals("commit")) {
      real.commit(base, next);
      pass(Point.AFTER_SWAP);
      if (point == Point.BETWEEN_APPLIES && LEFT_TO_SKIP.getAndDecrement() <= 0) {
        applying = new Applying(newest.summary().get("txns.commit-ts"));
      }
    } else if (kind.equals("tidy")) {
      pass(Point.BEFORE_TIDY);
      real.commit(base, next);
      pass(Point.AFTER_TIDY);
    } else {
      real.commit(base, next);
    }
  }

  private static void commitData(TableOperations real, TableMetadata base, TableMetadata next) {
    Applying entry = applying;
    if (entry == null || !entry.commitTs.equals(next.properties().get("txns.applied"))) {
      real.commit(base, next);
    } else {
      entry.commit(() -> real.commit(base, next));
    }
  }

  /** Lets one table of an entry be applied, and stops before the next one. */
  private static final class Applying {
    private final AtomicInteger tables = new AtomicInteger();
    private final CountDownLatch firstIsDone = new CountDownLatch(1);
    private final String commitTs;

    Applying(String commitTs) {
      this.commitTs = commitTs;
    }

    void commit(Runnable commit) {
      if (tables.getAndIncrement() == 0) {
        try {
          commit.run();
        } finally {
          // Where it is lost, somebody else has applied this table.
          firstIsDone.countDown();
        }
        return;
      }
      try {
        firstIsDone.await();
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return;
      }
      stop();
    }
  }

  /** The real catalog, which stops at its swaps. */
  public static final class KillPointCatalog extends JdbcCatalog {
    @Override
    public void initialize(String name, Map<String, String> options) {
      LEFT_TO_SKIP.set(Integer.parseInt(options.get("kill.skip")));
      point = Point.valueOf(options.get("kill.point"));
      super.initialize(name, options);
    }

    @Override
    protected TableOperations newTableOps(TableIdentifier identifier) {
      return new HookedOperations(
          super.newTableOps(identifier),
          identifier.equals(COMMITS) ? KillPoints::commitLog : KillPoints::commitData);
    }
  }

  /** The real file access, which stops at new data files and manifests of data tables. */
  public static final class KillPointFileIO extends HadoopFileIO {
    public KillPointFileIO() {
      super(new Configuration());
    }

    @Override
    public OutputFile newOutputFile(String path) {
      if (!path.contains("/txns/commits/")
          && (path.endsWith(".parquet") || path.contains("-m0.avro"))) {
        pass(Point.STAGING);
      }
      return super.newOutputFile(path);
    }
  }
}
