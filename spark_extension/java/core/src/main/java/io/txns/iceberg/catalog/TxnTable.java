package io.txns.iceberg.catalog;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.Compaction;
import io.txns.iceberg.meta.ConditionalWrite;
import io.txns.iceberg.meta.FastForward;
import io.txns.iceberg.stage.ReadSet;
import java.lang.reflect.InvocationHandler;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.lang.reflect.Proxy;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.apache.iceberg.AppendFiles;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.DeleteFiles;
import org.apache.iceberg.ExpireSnapshots;
import org.apache.iceberg.IncrementalAppendScan;
import org.apache.iceberg.IncrementalChangelogScan;
import org.apache.iceberg.ManageSnapshots;
import org.apache.iceberg.ManifestFile;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.PlanningMode;
import org.apache.iceberg.ReplacePartitions;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Scan;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotUpdate;
import org.apache.iceberg.SortField;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.TableScan;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.metrics.MetricsReporter;

/**
 * A data table as a transaction sees it.
 *
 * <p>A real {@link BaseTable}, since engines test for one. Its scans note what they read, with
 * their unsanitised filters, unless the engine that loaded it notes that by itself.
 */
public final class TxnTable extends BaseTable {
  private static final Set<String> PLANS = Set.of("planFiles", "planTasks");

  /** Above so many bytes of manifests, as Iceberg has it for itself, one process plans slowly. */
  private static final long LARGE_BYTES = 256L << 20;

  private static final Set<String> CONDITIONAL =
      Set.of("newOverwrite", "newRowDelta", "newReplacePartitions", "newDelete");

  private final TableIdentifier identifier;
  private final String uuid;
  private final String commitTableUuid;
  private final long readTs;
  private final transient TxnTableOperations operations;
  private final transient Supplier<Transaction> transaction;
  private final boolean notesReads;
  private volatile boolean shown;

  /**
   * @param uuid the table's, where names may change
   * @param notesReads whether its scans note what they read
   */
  TxnTable(
      TxnTableOperations ops,
      String name,
      TableIdentifier identifier,
      String uuid,
      String commitTableUuid,
      long readTs,
      Supplier<Transaction> transaction,
      MetricsReporter reporter,
      boolean notesReads) {
    super(ops, name, reporter);
    this.operations = ops;
    this.identifier = identifier;
    this.uuid = uuid;
    this.commitTableUuid = commitTableUuid;
    this.readTs = readTs;
    this.transaction = transaction;
    this.notesReads = notesReads;
  }

  /** Of the commit table that cares for it: timestamps of two of them do not compare. */
  public String commitTableUuid() {
    return commitTableUuid;
  }

  /** What the table was loaded at, in ms, in the time of its commit table. */
  public long readTs() {
    return readTs;
  }

  public TableIdentifier identifier() {
    return identifier;
  }

  @Override
  public void refresh() {
    operations.begin();
  }

  /** The catalog's own: tasks write data files with it, on machines that may not know ours. */
  @Override
  public FileIO io() {
    return operations.real().io();
  }

  /**
   * Spark's distributed planning goes around the scans of a table, which tell what they read: in a
   * transaction it is left to tables whose manifests are too large for one process, and to those
   * whose properties ask for it.
   */
  @Override
  public boolean allowDistributedPlanning() {
    boolean may = running() == null || asksForDistributedPlanning() || isLarge();
    return !notesReads && may && super.allowDistributedPlanning();
  }

  private boolean asksForDistributedPlanning() {
    return Stream.of(TableProperties.DATA_PLANNING_MODE, TableProperties.DELETE_PLANNING_MODE)
        .map(mode -> properties().getOrDefault(mode, ""))
        .anyMatch(PlanningMode.DISTRIBUTED.modeName()::equalsIgnoreCase);
  }

  private boolean isLarge() {
    Snapshot main = currentSnapshot();
    return main != null
        && main.allManifests(io()).stream().mapToLong(ManifestFile::length).sum() > LARGE_BYTES;
  }

  @Override
  public TableScan newScan() {
    return tracked(TableScan.class, super.newScan());
  }

  @Override
  public IncrementalAppendScan newIncrementalAppendScan() {
    recordRead();
    return super.newIncrementalAppendScan();
  }

  @Override
  public IncrementalChangelogScan newIncrementalChangelogScan() {
    recordRead();
    return super.newIncrementalChangelogScan();
  }

  /**
   * Without the orders of columns that are gone: Iceberg 1.11.0 binds all of them to the current
   * schema in every writing task, and fails.
   */
  @Override
  public Map<Integer, SortOrder> sortOrders() {
    Map<Integer, SortOrder> orders = new HashMap<>(super.sortOrders());
    orders.values().removeIf(order -> !order.fields().stream().allMatch(this::hasColumn));
    return orders;
  }

  /**
   * Where a record alone has put a table nobody cleans up: an orphan removal lists the files below
   * its location, and Iceberg removes none of a table whose {@code gc.enabled} is false.
   */
  @Override
  public Map<String, String> properties() {
    Map<String, String> own = super.properties();
    if (operations.isInPlace()) {
      return own;
    }
    Map<String, String> guarded = new HashMap<>(own);
    guarded.put(TableProperties.GC_ENABLED, "false");
    return guarded;
  }

  private boolean hasColumn(SortField field) {
    return schema().findField(field.sourceId()) != null;
  }

  /** Of single operations, these two alone do not depend on what the table holds. */
  @Override
  public AppendFiles newAppend() {
    return operations.standsOnOtherRowIds() ? newFastAppend() : appending().newAppend();
  }

  @Override
  public AppendFiles newFastAppend() {
    return appending().newFastAppend();
  }

  private BaseTable appending() {
    return new BaseTable(new AppendOperations(operations), name(), reporter());
  }

  @Override
  public org.apache.iceberg.Transaction newTransaction() {
    return TableTransaction.of(name(), this::begins, operations, reporter());
  }

  /** One of its transactions begins an operation, which Iceberg makes without asking the table. */
  private void begins(String operation) {
    if (CONDITIONAL.contains(operation)) {
      Transaction running = running();
      if (running != null) {
        noteConditionalWrite(running);
        noteRead(running); // nobody sees by which rows it chooses
      }
    } else if (operation.equals("expireSnapshots")) {
      refuseExpiryInside();
    }
  }

  @Override
  public ReplacePartitions newReplacePartitions() {
    return conditional(ReplacePartitions.class, super.newReplacePartitions());
  }

  @Override
  public DeleteFiles newDelete() {
    return conditional(DeleteFiles.class, super.newDelete());
  }

  @Override
  public OverwriteFiles newOverwrite() {
    return conditional(OverwriteFiles.class, super.newOverwrite());
  }

  @Override
  public RowDelta newRowDelta() {
    return conditional(RowDelta.class, super.newRowDelta());
  }

  @Override
  public RewriteFiles newRewrite() {
    return Compaction.of(super.newRewrite(), this);
  }

  @Override
  public ManageSnapshots manageSnapshots() {
    return new FastForward(this, super.manageSnapshots()).proxy();
  }

  private <T extends SnapshotUpdate<?>> T conditional(Class<T> type, T operation) {
    Transaction running = running();
    if (running == null) {
      return operation;
    }
    noteConditionalWrite(running);
    Object by = operation;
    running.reads().unsaid(identifier, uuid, by);
    WrittenRows rows = new WrittenRows(specs());
    boolean writesNothing =
        running.writes().leavesNoEmptySnapshot()
            && !(operation instanceof DeleteFiles)
            && !(operation instanceof ReplacePartitions);
    return ConditionalWrite.of(
        type,
        operation,
        writesNothing,
        (method, arguments) -> rows.note(method, arguments, operation instanceof ReplacePartitions),
        () -> rows.filters().ifPresent(filters -> noteSaid(running, by, filters, rows)));
  }

  /** It is told by which rows a write has chosen what it does. */
  private void noteSaid(Transaction in, Object by, List<Expression> filters, WrittenRows rows) {
    for (Expression each : filters) {
      in.reads().filter(identifier, uuid, filterOf(each, rows.isCaseSensitive(), null));
    }
    in.reads().said(identifier, by);
    in.reads().said(identifier, this); // what was loaded to be written, and is not scanned
  }

  @Override
  public ExpireSnapshots expireSnapshots() {
    refuseExpiryInside();
    return super.expireSnapshots();
  }

  private void refuseExpiryInside() {
    Transaction running = running();
    if (running != null && running.explicit()) {
      throw TxnException.unsupported(
          "expire_snapshots deletes files at once: run it outside the transaction; table=`"
              + identifier
              + "`");
    }
  }

  /** Note in a transaction that its rows were read, wherever it was loaded. */
  public void noteRead(Transaction in) {
    in.reads().table(identifier, uuid);
  }

  /** Note that a plan is about to read its rows, or to write it by them: its scans say by which. */
  public void notePlanned(Transaction in) {
    in.reads().unsaid(identifier, uuid, this);
  }

  /** What its scans find out of it is shown, or of the past: no rows of it are read by them. */
  public void noteNoScans() {
    shown = true;
  }

  /** Note in a transaction that its metadata was looked at, and perhaps none of its rows. */
  public void noteMetadataRead(Transaction in) {
    in.reads().metadata(identifier, uuid);
  }

  /**
   * Note in a transaction that a statement writes it by what it holds, as MERGE, UPDATE, DELETE and
   * overwrites do, whether it finds something to write or not.
   */
  public void noteConditionalWrite(Transaction in) {
    in.reads().conditionalWrite(identifier, uuid);
  }

  /** Note that an engine reads its rows; false where no transaction runs that it would be in. */
  public boolean recordRead() {
    Transaction running = running();
    if (running != null) {
      noteRead(running);
    }
    return running != null;
  }

  /** None either when it has ended under a running statement: that is for the commit to refuse. */
  private Transaction running() {
    try {
      return transaction == null ? null : transaction.get();
    } catch (TxnException ended) {
      return null;
    }
  }

  /** Note by what a scan reads: where an engine has planned to, that alone. */
  private void note(Transaction in, Scan<?, ?, ?> scan) {
    if (shown) {
      return;
    }
    Snapshot of = scan instanceof TableScan data ? data.snapshot() : null;
    ReadSet.RowFilter filter = filterOf(scan.filter(), scan.isCaseSensitive(), of);
    in.reads().filter(identifier, uuid, filter);
    in.reads().said(identifier, this);
  }

  /**
   * @param of the snapshot whose columns the filter names; null for the table's own
   */
  private ReadSet.RowFilter filterOf(Expression filter, boolean caseSensitive, Snapshot of) {
    int current = schema().schemaId();
    Integer named = of == null ? null : of.schemaId();
    boolean same = named == null || named == current;
    return same
        ? new ReadSet.RowFilter(filter, caseSensitive, current)
        : ReadSet.RowFilter.EVERYTHING;
  }

  private <T> T tracked(Class<T> type, T scan) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(), new Class<?>[] {type}, new Tracker<>(type, scan)));
  }

  /** Follows a scan through its refinements, and notes its filter when it is planned. */
  private final class Tracker<T> implements InvocationHandler {
    private final Class<T> type;
    private final T scan;

    private Tracker(Class<T> type, T scan) {
      this.type = type;
      this.scan = scan;
    }

    @Override
    public Object invoke(Object proxy, Method method, Object[] arguments) throws Throwable {
      Transaction running = running();
      if (running != null && PLANS.contains(method.getName())) {
        note(running, (Scan<?, ?, ?>) scan);
      }
      try {
        Object result = method.invoke(scan, arguments);
        return type.isInstance(result) ? tracked(type, type.cast(result)) : result;
      } catch (InvocationTargetException e) {
        throw e.getCause();
      }
    }
  }
}
