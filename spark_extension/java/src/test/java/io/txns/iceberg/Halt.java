package io.txns.iceberg;

import java.util.concurrent.atomic.AtomicInteger;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * Kills this process, as {@code kill -9} does, at the n-th call that writes: before and after every
 * catalog swap, at every new file, at every deletion.
 */
final class Halt {
  private static final AtomicInteger CALLS = new AtomicInteger();
  private static volatile int at = Integer.MAX_VALUE;

  private Halt() {}

  static void at(int call) {
    at = call;
  }

  static int calls() {
    return CALLS.get();
  }

  private static void tick() {
    if (CALLS.incrementAndGet() == at) {
      Runtime.getRuntime().halt(137);
    }
  }

  /** The real catalog, with a tick around every swap. */
  static final class HaltingCatalog extends JdbcCatalog {
    @Override
    protected TableOperations newTableOps(TableIdentifier identifier) {
      return new HaltingOperations(super.newTableOps(identifier));
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

  private record HaltingOperations(TableOperations real) implements TableOperations {
    @Override
    public TableMetadata current() {
      return real.current();
    }

    @Override
    public TableMetadata refresh() {
      return real.refresh();
    }

    @Override
    public void commit(TableMetadata base, TableMetadata metadata) {
      tick();
      real.commit(base, metadata);
      tick();
    }

    @Override
    public FileIO io() {
      return real.io();
    }

    @Override
    public EncryptionManager encryption() {
      return real.encryption();
    }

    @Override
    public String metadataFileLocation(String fileName) {
      return real.metadataFileLocation(fileName);
    }

    @Override
    public LocationProvider locationProvider() {
      return real.locationProvider();
    }

    @Override
    public TableOperations temp(TableMetadata uncommitted) {
      return real.temp(uncommitted);
    }

    @Override
    public long newSnapshotId() {
      return real.newSnapshotId();
    }
  }
}
