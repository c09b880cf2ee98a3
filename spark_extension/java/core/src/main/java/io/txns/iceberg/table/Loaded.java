package io.txns.iceberg.table;

import java.util.Optional;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;

/** A data table as the catalog has it and as the protocol sees it: four cases, and no more. */
public sealed interface Loaded {
  TableIdentifier identifier();

  /** The delegate's table; null for one that is logged and not created yet. */
  Table table();

  /** Its operations; null where the delegate's table has none. */
  TableOperations real();

  /** Whether it is under care. */
  default boolean registered() {
    return this instanceof Registered || this instanceof SwitchedOff;
  }

  /** What a reader sees. */
  default TableMetadata metadata() {
    return real().current();
  }

  /** What it is seen at, in ms; 0 where the log has no say. */
  default long readTs() {
    return 0;
  }

  /** Who wrote it outside the protocol, and is not seen here. */
  default Optional<Stranger> stranger() {
    return Optional.empty();
  }

  /** Whether it is hidden by a drop: one that has left care is what the catalog has. */
  default boolean dropped() {
    return false;
  }

  /** A table that is not under care. */
  record Unregistered(TableIdentifier identifier, Table table, TableOperations real)
      implements Loaded {}

  /** A table under care that is read and written as the catalog has it: transactions are off. */
  record SwitchedOff(TableIdentifier identifier, Table table, TableOperations real)
      implements Loaded {}

  /** A table of which the log has something to say. */
  sealed interface Viewed extends Loaded {
    TableView view();

    @Override
    default TableMetadata metadata() {
      return view().metadata();
    }

    @Override
    default long readTs() {
      return view().readTs();
    }

    @Override
    default Optional<Stranger> stranger() {
      return view().stranger();
    }
  }

  /** A table that the log has taken from care, and that does not say so yet. */
  record Forgotten(TableIdentifier identifier, Table table, TableOperations real, TableView view)
      implements Viewed {}

  /** A table under care, by its mark or by what the log says of one that a stranger took. */
  record Registered(TableIdentifier identifier, Table table, TableOperations real, TableView view)
      implements Viewed {
    @Override
    public boolean dropped() {
      return view.dropped();
    }

    /** The same table with other metadata. */
    public Registered showing(TableMetadata other) {
      TableView seen = new TableView(other, view.readTs(), view.stranger());
      return new Registered(identifier, table, real, seen);
    }
  }

  /** A table of the log: what is seen of it says whether it is under care. */
  static Viewed of(TableIdentifier identifier, Table table, TableOperations real, TableView view) {
    return TableMark.of(view.metadata()).isPresent()
        ? new Registered(identifier, table, real, view)
        : new Forgotten(identifier, table, real, view);
  }
}
