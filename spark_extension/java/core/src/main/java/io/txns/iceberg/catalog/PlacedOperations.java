package io.txns.iceberg.catalog;

import io.txns.iceberg.meta.DelegatingOperations;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.io.LocationProvider;

/** Operations of metadata that is not committed, which tell no place that a writer may not have. */
final class PlacedOperations extends DelegatingOperations {
  private final TableOperations real;
  private final Runnable check;

  /**
   * @param real the catalog's, of the metadata
   * @param check refuses its places
   */
  PlacedOperations(TableOperations real, Runnable check) {
    this.real = real;
    this.check = check;
  }

  @Override
  protected TableOperations real() {
    return real;
  }

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
    real.commit(base, metadata);
  }

  @Override
  public String metadataFileLocation(String fileName) {
    check.run();
    return real.metadataFileLocation(fileName);
  }

  @Override
  public LocationProvider locationProvider() {
    check.run();
    return real.locationProvider();
  }
}
