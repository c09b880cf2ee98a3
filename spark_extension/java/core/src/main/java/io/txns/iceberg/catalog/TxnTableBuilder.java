package io.txns.iceberg.catalog;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.Recreation;
import io.txns.iceberg.table.Claim;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.Retention;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.Transactions;
import org.apache.iceberg.catalog.Catalog.TableBuilder;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.catalog.ViewCatalog;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * CREATE TABLE, CTAS, CREATE OR REPLACE and RTAS through the protocol.
 *
 * <p>A new table is staged with the metadata that the catalog itself would give it.
 */
public final class TxnTableBuilder implements TableBuilder {
  private final Services services;
  private final TableLoading tables;
  private final TableIdentifier identifier;
  private final Schema schema;
  private final TableBuilder plain;
  private final Map<String, String> properties = new HashMap<>();
  private PartitionSpec spec = PartitionSpec.unpartitioned();
  private SortOrder sortOrder = SortOrder.unsorted();
  private String location;

  public TxnTableBuilder(TableLoading tables, TableIdentifier identifier, Schema schema) {
    this.services = tables.services();
    this.tables = tables;
    this.identifier = identifier;
    this.schema = schema;
    this.plain = services.delegate().buildTable(identifier, schema);
  }

  @Override
  public TableBuilder withPartitionSpec(PartitionSpec newSpec) {
    spec = newSpec == null ? PartitionSpec.unpartitioned() : newSpec;
    plain.withPartitionSpec(newSpec);
    return this;
  }

  @Override
  public TableBuilder withSortOrder(SortOrder newSortOrder) {
    sortOrder = newSortOrder == null ? SortOrder.unsorted() : newSortOrder;
    plain.withSortOrder(newSortOrder);
    return this;
  }

  @Override
  public TableBuilder withLocation(String newLocation) {
    location = newLocation;
    plain.withLocation(newLocation);
    return this;
  }

  @Override
  public TableBuilder withProperties(Map<String, String> more) {
    if (more != null) {
      Map<String, String> users = TableMark.withoutReserved(more);
      properties.putAll(users);
      plain.withProperties(users);
    }
    return this;
  }

  @Override
  public TableBuilder withProperty(String key, String value) {
    return withProperties(Map.of(key, value));
  }

  @Override
  public Table create() {
    createTransaction().commitTransaction();
    return tables.load(identifier);
  }

  @Override
  public org.apache.iceberg.Transaction createTransaction() {
    services.checks().refuseWithoutNamespace(identifier);
    services.checks().refuseCommitTable(identifier);
    if (!registers()) {
      refuseDropped();
      services.checks().refuseLogged(identifier);
      return plain.createTransaction();
    }
    Loaded dropped = droppedOrAbsent();
    return dropped == null ? creation(false) : recreation(dropped, false);
  }

  @Override
  public org.apache.iceberg.Transaction replaceTransaction() {
    services.checks().refuseCommitTable(identifier);
    Loaded existing = existing();
    if (isPlain(existing)) {
      return plainReplacement(existing, false);
    }
    if (existing == null && !isStagedCreate()) {
      throw new NoSuchTableException("Table does not exist: %s", identifier);
    }
    return replacement(existing, false);
  }

  @Override
  public org.apache.iceberg.Transaction createOrReplaceTransaction() {
    services.checks().refuseCommitTable(identifier);
    Loaded existing = existing();
    if (isPlain(existing)) {
      return plainReplacement(existing, true);
    }
    if (existing != null || isStagedCreate()) {
      return replacement(existing, true);
    }
    services.checks().refuseWithoutNamespace(identifier);
    if (!registers()) {
      refuseDropped();
      return plain.createOrReplaceTransaction();
    }
    Loaded dropped = droppedOrAbsent();
    return dropped == null ? creation(true) : recreation(dropped, true);
  }

  /** Whether a new table comes under care. */
  private boolean registers() {
    boolean registers = services.config().get().register() != TxnConfig.Register.NONE;
    if (!registers && isExplicit()) {
      throw TxnException.unsupported(
          "a table created inside a transaction comes under care: set the catalog option"
              + " txns.register=created, or create it outside");
    }
    return registers;
  }

  /** Who leaves tables out of care would put rows on a dropped one, where nobody reads them. */
  private void refuseDropped() {
    if (services.newest().hasDropped(identifier, running())) {
      throw TxnException.unsupported(
          String.format(
              "the dropped table of this name is still there, and only a table under care is created"
                  + " on it: set the catalog option txns.register=created, or CALL"
                  + " %s.system.purge('%s') first; table=`%s`",
              services.catalogName(), identifier, identifier));
    }
  }

  /**
   * Whether there is a table that nobody registered, or any while transactions are off: its
   * replacement is the catalog's affair.
   */
  private boolean isPlain(Loaded existing) {
    if (existing == null || existing instanceof Loaded.Registered) {
      return false;
    }
    services.checks().refuseCommitTable(existing);
    if (isExplicit()) {
      services.checks().writable(existing);
    }
    return true;
  }

  private org.apache.iceberg.Transaction plainReplacement(Loaded existing, boolean orCreate) {
    boolean ahead = isAhead(existing.real());
    if (!(existing instanceof Loaded.SwitchedOff) && !ahead) {
      return orCreate ? plain.createOrReplaceTransaction() : plain.replaceTransaction();
    }
    // As the catalog would, but not when transactions are on again, and whatever its times are.
    TableOperations guarded = tables.unregistered(existing);
    TableMetadata replaced =
        ahead
            ? replaced(guarded.current(), wantedProperties())
            : ((BaseTransaction) plain.replaceTransaction()).currentMetadata();
    return orCreate
        ? Transactions.createOrReplaceTableTransaction(identifier.toString(), guarded, replaced)
        : Transactions.replaceTableTransaction(identifier.toString(), guarded, replaced);
  }

  /** Whether a fast clock has put a table ahead: the catalog's own builder refuses it. */
  private boolean isAhead(TableOperations real) {
    TableMetadata current = real == null ? null : real.current();
    return current != null && Timestamps.isAhead(current, services.clock().nowMs());
  }

  private TableMetadata replaced(TableMetadata base, Map<String, String> wanted) {
    return base.buildReplacement(
        schema, spec, sortOrder, location == null ? base.location() : location, wanted);
  }

  private org.apache.iceberg.Transaction creation(boolean orReplace) {
    BaseTransaction delegate = (BaseTransaction) plain.createTransaction();
    Head head = services.log().loadOrCreate();
    if (head.state().off() && !isExplicit()) {
      return orReplace ? plain.createOrReplaceTransaction() : delegate;
    }
    TableMetadata planned = delegate.currentMetadata();
    services.checks().refuseElsewhere(identifier, null, location, planned.properties());
    TableMetadata first =
        TableMetadata.buildFrom(planned)
            .setProperties(Retention.properties(planned.properties()))
            .setProperties(
                TableMark.properties(
                    services.log().identifier(), head.logId(), TableNames.uuid(planned)))
            .build();
    TxnTableOperations operations =
        tables.operations(identifier, null, delegate.underlyingOps()).replacing();
    return orReplace
        ? Transactions.createOrReplaceTableTransaction(identifier.toString(), operations, first)
        : Transactions.createTableTransaction(identifier.toString(), operations, first);
  }

  private org.apache.iceberg.Transaction replacement(Loaded existing, boolean orCreate) {
    TableOperations real =
        existing == null ? running().writeSet().table(identifier).real() : existing.real();
    TxnTableOperations operations = tables.operations(identifier, existing, real).replacing();
    TableMetadata base = operations.current();
    services.checks().refuseElsewhere(identifier, base, location, properties);
    return replacing(operations, orCreate, replaced(base, replacedProperties(real, base)));
  }

  /** A dropped table is created again on its physical one. */
  private org.apache.iceberg.Transaction recreation(Loaded dropped, boolean orReplace) {
    TableOperations real = dropped.real();
    TxnTableOperations operations =
        tables
            .operations(identifier, dropped, real)
            .recreating(new Recreation(identifier, orReplace))
            .replacing();
    TableMetadata base = operations.current();
    services.checks().refuseElsewhere(identifier, base, location, properties);
    String place = location == null ? base.location() : location;
    Map<String, String> wanted = replacedProperties(real, base);
    TableMetadata replaced = Recreation.replaced(base, schema, spec, sortOrder, place, wanted);
    return replacing(operations, orReplace, Recreation.afresh(replaced, newProperties()));
  }

  private org.apache.iceberg.Transaction replacing(
      TxnTableOperations operations, boolean orCreate, TableMetadata replaced) {
    return orCreate
        ? Transactions.createOrReplaceTableTransaction(identifier.toString(), operations, replaced)
        : Transactions.replaceTableTransaction(identifier.toString(), operations, replaced);
  }

  /** The properties asked for, with the format version, and those of the catalog's options. */
  private Map<String, String> wantedProperties() {
    Map<String, String> wanted = new HashMap<>(properties);
    wanted.putAll(newProperties());
    return wanted;
  }

  /** The properties that the catalog would give a table of a name that has never been used. */
  private Map<String, String> newProperties() {
    TableIdentifier unused =
        TableIdentifier.of(
            identifier.namespace(), identifier.name() + "-" + services.clock().newTxnId());
    BaseTransaction creation =
        (BaseTransaction)
            services
                .delegate()
                .buildTable(unused, schema)
                .withProperties(properties)
                .createTransaction();
    return creation.currentMetadata().properties();
  }

  /**
   * The properties asked for, with those that the catalog sets or overrides by its options.
   *
   * @param base what is replaced, whose properties stay: not those that the catalog's table has,
   *     which lacks what is logged and not applied yet
   */
  private Map<String, String> replacedProperties(TableOperations real, TableMetadata base) {
    Map<String, String> wanted;
    try {
      wanted = isAhead(real) ? wantedProperties() : addedProperties();
    } catch (NoSuchTableException e) {
      wanted = properties; // logged, and not created yet
    } catch (IllegalArgumentException e) {
      wanted = wantedProperties(); // it is ahead since it was loaded, and no builder takes it
    }
    Map<String, String> users = new HashMap<>(TableMark.withoutReserved(wanted));
    Map<String, String> all = new HashMap<>(base.properties());
    all.putAll(users);
    users.putAll(Retention.properties(all));
    return users;
  }

  /** The properties asked for, and what the catalog's own replacement adds to those it has. */
  private Map<String, String> addedProperties() {
    BaseTransaction delegate = (BaseTransaction) plain.replaceTransaction();
    Map<String, String> before = delegate.startMetadata().properties();
    Map<String, String> added = new HashMap<>(properties);
    delegate
        .currentMetadata()
        .properties()
        .forEach(
            (key, value) -> {
              // Of what was asked for the catalog's options override some, by what it may have had.
              if (properties.containsKey(key) || !value.equals(before.get(key))) {
                added.put(key, value);
              }
            });
    return added;
  }

  /** The table, when there is one that is neither dropped nor only staged. */
  private Loaded existing() {
    if (isStagedCreate()) {
      return null;
    }
    try {
      Transaction running = running();
      Loaded known =
          running != null && running.explicit()
              ? running.writeSet().load(identifier)
              : services.newest().load(identifier);
      return running != null && running.writeSet().drops(identifier) ? null : known;
    } catch (NoSuchTableException e) {
      return null;
    }
  }

  /** A dropped table's physical one, on which it is created again; null where there is none. */
  private Loaded droppedOrAbsent() {
    if (existing() != null || isStagedCreate()) {
      throw new AlreadyExistsException("Table already exists: %s", identifier);
    }
    Head head = isExplicit() ? running().writeSet().head() : services.log().loadOrCreate();
    long readTs = isExplicit() ? running().readTs() : head.upper();
    Loaded loaded;
    try {
      loaded = services.tables().loadWithDropped(identifier, head, readTs);
    } catch (NoSuchTableException e) {
      refuseView();
      return null;
    }
    boolean droppedHere = running() != null && running().writeSet().drops(identifier);
    if (!droppedHere && !loaded.dropped()) {
      // Somebody created it since it was looked for.
      throw new AlreadyExistsException("Table already exists: %s", identifier);
    }
    if (!droppedHere) {
      Claim.refuse(services.catalogName(), identifier, loaded.metadata());
      services.checks().writable(loaded);
    }
    return loaded;
  }

  /** Catalogs give a name to one of the two: what is logged under a view's is never applied. */
  private void refuseView() {
    boolean exists;
    try {
      exists = services.delegate() instanceof ViewCatalog views && views.viewExists(identifier);
    } catch (UnsupportedOperationException | ForbiddenException e) {
      exists = false; // the catalog has no views, or none that we may see
    }
    if (exists) {
      throw new AlreadyExistsException("View with same name already exists: %s", identifier);
    }
  }

  private boolean isStagedCreate() {
    return running() != null && running().writeSet().creates(identifier);
  }

  private boolean isExplicit() {
    return running() != null && running().explicit();
  }

  private Transaction running() {
    return tables.running();
  }
}
