package io.txns.iceberg.stage;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.Winner;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.StorageTime;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/** Refuses what must not be written, with the command that cures it. */
public final class WriteChecks {
  private final String catalogName;
  private final Supplier<TxnConfig> config;
  private final CommitLog log;
  private final DataTables tables;
  private final AllowedPlaces places;
  private final TxnClock clock;

  public WriteChecks(
      String catalogName,
      Supplier<TxnConfig> config,
      CommitLog log,
      DataTables tables,
      AllowedPlaces places,
      TxnClock clock) {
    this.catalogName = catalogName;
    this.config = config;
    this.log = log;
    this.tables = tables;
    this.places = places;
    this.clock = clock;
  }

  /**
   * Give a table where it can be written through the log: not one to which strangers have done more
   * than to append, that nobody registered, a commit table, one that a record alone has put
   * elsewhere, or any while transactions are off. What was only appended is adopted when it is
   * written; but not into a dropped one.
   *
   * @throws TxnException 55000 or 0A000, with the command that cures it
   */
  public Loaded.Registered writable(Loaded table) {
    if (table instanceof Loaded.SwitchedOff) {
      throw TxnException.off();
    }
    if (!(table instanceof Loaded.Registered registered)) {
      refuseCommitTable(table);
      throw TxnException.unsupported(
          String.format(
              "a transaction writes registered tables only: CALL %s.system.register('%s') first;"
                  + " table=`%s`",
              catalogName, table.identifier(), table.identifier()));
    }
    registered
        .stranger()
        .ifPresent(
            stranger -> {
              if (!stranger.adoptable()) {
                throw stranger.quarantined(table.identifier());
              }
              if (registered.dropped()) {
                throw TxnException.foreignWrite(table.identifier(), stranger.reason());
              }
            });
    refuseElsewhere(registered);
    return registered;
  }

  /**
   * Refuse to write a table under care as the catalog has it, unless transactions are off now. Who
   * passes just before they are on again is found as a stranger.
   *
   * @param base what the write stands on
   * @throws TxnException 40001: the table was registered, or transactions were turned on
   */
  public void checkPlain(TableIdentifier table, TableMetadata base) {
    Head head = log.loadIfExists();
    if (!tables.isPlain(base, head)) {
      throw TxnException.conflict(
          table,
          "",
          Winner.NOBODY,
          head.upper(),
          "the table was registered, or transactions were turned on, while it was written");
    }
  }

  /**
   * Refuse what takes snapshots away while this process's clock is wrong: by it an engine has found
   * out which of them are old.
   *
   * @throws TxnException 58000
   */
  public void refuseWrongClock(List<MetadataUpdate> changes) {
    if (changes.stream().anyMatch(MetadataUpdate.RemoveSnapshots.class::isInstance)) {
      new StorageTime(log, clock).checkedNowMs(log.load());
    }
  }

  /**
   * Refuse to put a table where nobody would create it.
   *
   * @param base what the change stands on; null for a new table
   * @throws TxnException 0A000
   */
  public void refuseElsewhere(TableIdentifier table, TableMetadata base, TableMetadata to) {
    List<MetadataUpdate> updates = new ArrayList<>(to.changes());
    if (base == null) { // its changes are those since it was planned
      updates.add(new MetadataUpdate.SetLocation(to.location()));
      updates.add(new MetadataUpdate.SetProperties(to.properties()));
    }
    places.refuseToStage(table, base, updates);
  }

  /**
   * Refuse a place that is asked for, before anything is written there.
   *
   * @param base the table that is replaced; null for a new one
   * @param location null where none is asked for
   * @param properties that are asked for
   * @throws TxnException 0A000
   */
  public void refuseElsewhere(
      TableIdentifier table, TableMetadata base, String location, Map<String, String> properties) {
    List<MetadataUpdate> asked = new ArrayList<>();
    if (location != null) {
      asked.add(new MetadataUpdate.SetLocation(location));
    }
    asked.add(new MetadataUpdate.SetProperties(properties));
    places.refuseToStage(table, base, asked);
  }

  /**
   * Refuse to write a table that a change which is not applied yet has put elsewhere.
   *
   * @throws TxnException Quarantined
   */
  public void refuseElsewhere(Loaded table) {
    refuseToWrite(table.identifier(), table.real(), table.metadata());
  }

  /**
   * The same of what is written on, before the first file.
   *
   * @param real the catalog's operations of the table; null where it has none
   */
  public void refuseToWrite(TableIdentifier table, TableOperations real, TableMetadata shown) {
    places.refuseToWrite(table, real == null ? null : real.current(), shown);
  }

  /** Whether files may be written, and removed, where what is shown of a table says that it is. */
  public boolean isInPlace(TableIdentifier table, TableOperations real, TableMetadata shown) {
    return places.misplaced(table, real == null ? null : real.current(), shown).isEmpty();
  }

  /**
   * Refuse the commit table's name, also before there is a table under it.
   *
   * @throws TxnException 0A000
   */
  public void refuseCommitTable(TableIdentifier table) {
    if (table.equals(config.get().commitTable())) {
      throw TableMark.writtenByProtocolOnly(table);
    }
  }

  /**
   * Refuse a name without a namespace: pyiceberg, and REST catalogs, have no such tables.
   *
   * @throws TxnException 42602, with a name that works
   */
  public void refuseWithoutNamespace(TableIdentifier table) {
    if (table.namespace().isEmpty()) {
      throw TxnException.invalidUsage(
          "42602",
          String.format(
              "a table needs a namespace: name it %s.default.%s, say, or begin in one by the catalog"
                  + " option default-namespace; table=`%s`",
              catalogName, table.name(), table));
    }
  }

  /**
   * Refuse a name that the log has given to a table which the catalog does not have: whatever takes
   * it there would stand in the way of what was committed. Of other names the catalog tells, but
   * for those that differ from such a one in letters alone.
   *
   * @throws AlreadyExistsException where there is such a table
   * @throws TxnException 0A000 where there may be one
   */
  public void refuseLogged(TableIdentifier name) {
    Head head = log.loadIfExists();
    if (isNotCreated(name, head)) {
      throw new AlreadyExistsException("Table already exists: %s", name);
    }
    for (TableIdentifier other : head.state().createdAlike(name)) {
      if (isNotCreated(other, head)) {
        throw TxnException.unsupported(
            String.format(
                "a table of the log that is not created yet has a name which differs in letters"
                    + " alone, and the catalog may take both for one: CALL %s.system.apply() first;"
                    + " table=`%s` other=`%s`",
                catalogName, name, other));
      }
    }
  }

  /** Whether the log has a table that the catalog does not have yet. */
  private boolean isNotCreated(TableIdentifier name, Head head) {
    try {
      return tables.loadWithDropped(name, head, head.upper()).table() == null;
    } catch (NoSuchTableException e) {
      return false; // nobody has it
    }
  }

  /**
   * Refuse to change a log behind the protocol's back.
   *
   * @throws TxnException 0A000 for a commit table, this one or another
   */
  public void refuseCommitTable(Loaded table) {
    if (table.real() != null && !table.registered()) {
      TableMark.refuseCommitTable(table.identifier(), table.real().current());
    }
  }
}
