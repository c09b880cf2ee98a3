package io.txns.iceberg.stage;

import io.txns.iceberg.meta.DelegatingOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.io.LocationProvider;

/** Table operations whose commits stay in memory. */
final class StagingOperations extends DelegatingOperations {
  private final StagedTable staged;

  StagingOperations(StagedTable staged) {
    this.staged = staged;
  }

  @Override
  public TableOperations real() {
    return staged.real();
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
  public String metadataFileLocation(String fileName) {
    return real().temp(current()).metadataFileLocation(fileName);
  }

  @Override
  public LocationProvider locationProvider() {
    return real().temp(current()).locationProvider();
  }
}
