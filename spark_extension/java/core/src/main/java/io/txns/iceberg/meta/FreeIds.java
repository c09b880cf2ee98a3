package io.txns.iceberg.meta;

import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;

/**
 * What a logged change adds to a table that strangers may have added something to: which id it has
 * there, and what names it.
 *
 * <p>Iceberg's builder gives the ids. It says of nothing that the table has already that it was
 * added last, and takes an id that a change names for the table's own.
 */
public final class FreeIds {
  private final SchemaIds schemas;
  private final SortOrderIds orders;
  private final SpecIds specs;

  public FreeIds(TableMetadata base) {
    this.schemas = new SchemaIds(base);
    this.orders = new SortOrderIds(base);
    this.specs = new SpecIds(base);
  }

  /** An update that adds no snapshot, by the table's ids. */
  public MetadataUpdate here(MetadataUpdate update) {
    return specs.here(orders.here(schemas.here(update)));
  }

  /** A staged snapshot that names its schema by the table's id. */
  public Snapshot renamed(Snapshot staged) {
    return schemas.renamed(staged);
  }
}
