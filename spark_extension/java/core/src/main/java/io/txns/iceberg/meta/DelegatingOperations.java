package io.txns.iceberg.meta;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** Table operations that read and commit in their own way; all else is as the catalog has it. */
public abstract class DelegatingOperations implements TableOperations {

  /** The catalog's own operations, as they are now. */
  protected abstract TableOperations real();

  @Override
  public FileIO io() {
    return real().io();
  }

  @Override
  public EncryptionManager encryption() {
    return real().encryption();
  }

  @Override
  public String metadataFileLocation(String fileName) {
    return real().metadataFileLocation(fileName);
  }

  @Override
  public LocationProvider locationProvider() {
    return real().locationProvider();
  }

  @Override
  public TableOperations temp(TableMetadata uncommitted) {
    return real().temp(uncommitted);
  }

  @Override
  public long newSnapshotId() {
    return real().newSnapshotId();
  }

  @Override
  public boolean requireStrictCleanup() {
    return real().requireStrictCleanup();
  }
}
