package io.txns.iceberg;

import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.encryption.EncryptionManager;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.LocationProvider;

/** Table operations whose commits stay in memory. */
final class StagingOperations implements TableOperations {
  private final StagedTable staged;

  StagingOperations(StagedTable staged) {
    this.staged = staged;
  }

  @Override
  public TableMetadata current() {
    return staged.current();
  }

  @Override
  public TableMetadata refresh() {
    return staged.current();
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    staged.stage(base, metadata);
  }

  @Override
  public FileIO io() {
    return staged.real().io();
  }

  @Override
  public EncryptionManager encryption() {
    return staged.real().encryption();
  }

  @Override
  public String metadataFileLocation(String fileName) {
    return staged.real().temp(staged.current()).metadataFileLocation(fileName);
  }

  @Override
  public LocationProvider locationProvider() {
    return staged.real().temp(staged.current()).locationProvider();
  }

  @Override
  public TableOperations temp(TableMetadata uncommitted) {
    return staged.real().temp(uncommitted);
  }

  @Override
  public long newSnapshotId() {
    return staged.real().newSnapshotId();
  }

  @Override
  public boolean requireStrictCleanup() {
    return staged.real().requireStrictCleanup();
  }
}
