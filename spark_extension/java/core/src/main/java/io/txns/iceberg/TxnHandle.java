package io.txns.iceberg;

import io.txns.iceberg.admin.OffSwitch;
import io.txns.iceberg.admin.Purger;
import io.txns.iceberg.admin.Repairer;
import io.txns.iceberg.catalog.StatementCommit;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.WriteChecks;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitLoop;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.commit.Registrar;
import io.txns.iceberg.commit.Tidier;
import io.txns.iceberg.log.Archive;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.Claim;
import io.txns.iceberg.table.DataTables;
import java.io.Closeable;
import java.io.IOException;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The protocol over one catalog: begin transactions, put tables under care, apply, tidy, repair.
 *
 * <p>Threads may share a handle. It opens nothing by itself: the commit table is created by the
 * first registration, or the first table that is created through it.
 */
public final class TxnHandle implements Closeable {
  private static final Logger LOG = LoggerFactory.getLogger(TxnHandle.class);
  private static final long BASIS_POLL_MS = 50;

  private final String catalogName;
  private final Catalog delegate;
  private final Supplier<TxnConfig> config;
  private final TxnClock clock;
  private final CommitLog log;
  private final DataTables tables;
  private final Archive archive;
  private final CommitLoop loop;
  private final Applier applier;
  private final Tidier tidier;
  private final Committer committer;
  private final Registrar registrar;
  private final Repairer repairer;
  private final WriteChecks checks;

  private TxnHandle(
      String catalogName,
      Catalog delegate,
      Supplier<TxnConfig> config,
      TxnClock clock,
      Function<String, CommitGroup> groups) {
    this.catalogName = catalogName;
    this.delegate = delegate;
    this.config = config;
    this.clock = clock;
    this.log = new CommitLog(delegate, config.get().commitTable(), clock);
    this.archive = new Archive(log);
    this.tables = new DataTables(delegate, log, archive, clock);
    this.loop = new CommitLoop(log, archive, clock, groups);
    this.applier = new Applier(delegate, log, tables, clock);
    this.tidier = new Tidier(config, log, tables, clock);
    this.committer = new Committer(config, log, loop, archive, tables, applier, tidier, clock);
    this.registrar = new Registrar(delegate, log, loop, tables, applier, committer, clock);
    this.repairer = new Repairer(log, tables, applier, committer, clock);
    this.checks = new WriteChecks(catalogName, config, log, tables);
  }

  /**
   * Open the protocol over a catalog; its commits share swaps with those of no other handle.
   *
   * @param catalogName the name under which messages and table names know it
   * @param delegate the catalog that the tables live in; not a caching one
   */
  public static TxnHandle open(
      String catalogName, Catalog delegate, TxnConfig config, TxnClock clock) {
    CommitGroup own = new CommitGroup();
    return new TxnHandle(catalogName, delegate, () -> config, clock, uuid -> own);
  }

  /**
   * The same with options that may change while it is open, all but the commit table; its commits
   * share swaps with those of handles that have the same catalog.
   *
   * @param catalogOptions all that says which catalog it is and who asks it: handles with equal
   *     ones, under one name, commit for each other
   * @param config asked each time that an option is needed
   */
  public static TxnHandle open(
      String catalogName,
      Map<String, String> catalogOptions,
      Catalog delegate,
      Supplier<TxnConfig> config,
      TxnClock clock) {
    Map<String, String> options = Map.copyOf(catalogOptions);
    TableIdentifier commitTable = config.get().commitTable();
    return new TxnHandle(
        catalogName,
        delegate,
        config,
        clock,
        uuid -> CommitGroup.of(new CommitGroup.Sharing(catalogName, options, commitTable, uuid)));
  }

  /**
   * Begin a transaction.
   *
   * <p>With the id of a transaction that has committed already, the answer is {@link
   * Transaction.State#COMMITTED} at once.
   *
   * @throws TxnException 25000 when the basis is not reached in time, or an explicit {@code
   *     read_ts} lies above the upper; 0A000 while transactions are off
   */
  public Transaction begin(BeginOptions options) {
    Head head = log.loadIfEver();
    if (options.basis() != null) {
      head = await(options.basis(), options.basisTimeoutMs());
    }
    long readTs = options.asOf() == null ? head.upper() : options.asOf();
    if (readTs > head.upper()) {
      throw TxnException.invalidUsage(
          "25000",
          String.format(
              "nothing has committed at that time yet, read at the upper or below; as_of=`%d`"
                  + " upper=`%d`",
              readTs, head.upper()));
    }
    Isolation isolation = isolation(options);
    String id = options.id() == null ? clock.newTxnId() : options.id();
    Transaction transaction =
        new Transaction(this, head, options, id, readTs, isolation, true, clock.nowMs());
    if (options.id() != null) {
      Optional<Entry> known = loop.find(head, id, clock.nowMs() - config().idRetentionMs());
      if (known.isPresent()) {
        return transaction.alreadyCommitted(committed(known.get()));
      }
    }
    if (head.state().off()) {
      throw TxnException.off();
    }
    return transaction;
  }

  /** Strict serializability reads at the upper: an explicit timestamp is a level below it. */
  private Isolation isolation(BeginOptions options) {
    boolean strict = options.isolation() == Isolation.STRICT_SERIALIZABLE;
    if (options.asOf() != null && strict) {
      throw TxnException.invalidUsage(
          "25000",
          "STRICT SERIALIZABLE reads at the newest timestamp: leave out AS OF, or use ISOLATION"
              + " LEVEL SERIALIZABLE");
    }
    if (options.isolation() != null) {
      return options.isolation();
    }
    return options.asOf() != null && config().isolation() == Isolation.STRICT_SERIALIZABLE
        ? Isolation.SERIALIZABLE
        : config().isolation();
  }

  /**
   * Begin the implicit transaction of one statement: its reads are pinned at the upper, its one
   * Iceberg operation commits at once, on whatever base Iceberg's own retry has come to.
   */
  public Transaction beginStatement() {
    Head head = log.loadIfExists();
    return beginStatement(head, head.upper());
  }

  /** The same for a statement whose tables were loaded before it, from {@code readTs} on, in ms. */
  public Transaction beginStatement(long readTs) {
    return beginStatement(log.loadIfExists(), readTs);
  }

  /** Whether what single statements read is validated, as options may ask for. */
  public boolean validatesStatements() {
    return config().autocommitIsolation() != null;
  }

  private Transaction beginStatement(Head head, long readTs) {
    Isolation isolation =
        validatesStatements() ? config().autocommitIsolation() : Isolation.SNAPSHOT;
    return new Transaction(
        this,
        head,
        BeginOptions.defaults(),
        clock.newTxnId(),
        readTs,
        isolation,
        false,
        clock.nowMs());
  }

  /**
   * The tables as a catalog.
   *
   * @param current the transaction that runs; gives null outside one
   */
  public TxnCatalog catalog(Supplier<Transaction> current) {
    return new TxnCatalog(this, current);
  }

  /** Put a table under care; idempotent. Gives the {@code commit_ts} from which it is. */
  public long register(TableIdentifier table) {
    WriteChecks.refuseWithoutNamespace(catalogName, table);
    return registrar.register(table);
  }

  /**
   * Put the table of a uuid under care, where it stands under a name.
   *
   * @throws NoSuchTableException where it does not
   */
  public long register(TableIdentifier table, String uuid) {
    return registrar.register(table, uuid);
  }

  /**
   * Take a table from care; idempotent. Gives the {@code commit_ts} from which it is a plain one.
   */
  public long forget(TableIdentifier table) {
    return registrar.forget(table);
  }

  /** Take in what strangers wrote to a table, as an entry of its own. Gives its commit_ts. */
  public long repairAdopt(TableIdentifier table) {
    return repairer.adopt(table);
  }

  /** Set aside what strangers wrote to a table, on a branch. Gives the entry's commit_ts. */
  public long repairReject(TableIdentifier table) {
    return repairer.reject(table);
  }

  /**
   * Take a dropped table out of the catalog for good, and delete its files.
   *
   * <p>Possible when the drop is older than any transaction may be, no hold needs the table and
   * nobody has written it outside the protocol since. A purge that died is gone on with after 10
   * minutes, by anyone. Data files of a table with {@code gc.enabled=false} stay.
   *
   * @throws NoSuchTableException where there is none, or it has been purged
   * @throws TxnException 0A000 that says from when on, or what stands in the way; 40001 where
   *     somebody else purges it, or was faster; 42809 for a table that is not dropped
   */
  public Purged purge(TableIdentifier table) {
    return purge(table, Claim.DURATION_MS);
  }

  /** The same, with another time for which nobody takes over a claim, in ms. */
  public Purged purge(TableIdentifier table, long claimMs) {
    return new Purger(this, committer, applier, tidier, claimMs).purge(table);
  }

  /** Apply what is outstanding on every table. Gives the number of tables with entries left. */
  public int apply() {
    Head head = log.loadIfExists();
    Set<TableIdentifier> named = new LinkedHashSet<>();
    head.state().entries().stream()
        .filter(Entry::applies)
        .flatMap(entry -> entry.changes().stream())
        .forEach(change -> named.add(head.state().nameOf(change)));
    return applier.applyAll(head, named).size();
  }

  /** Apply what is outstanding on one table; 1 where entries are left, else 0. */
  public int apply(TableIdentifier table) {
    return applier.apply(log.loadIfExists(), table) ? 0 : 1;
  }

  /** Archive what is applied. Gives the number of entries that left the head. */
  public int tidy() {
    return log.loadIfExists().exists() ? tidier.tidy() : 0;
  }

  /**
   * Turn the protocol's writers away and apply everything: the way out in an incident.
   *
   * @return the number of tables with entries left
   */
  public int off() {
    return new OffSwitch(this, loop).off();
  }

  /**
   * Let the protocol's writers in again, and adopt what others wrote to the tables.
   *
   * @return the tables for which that did not work, each with the reason and its cure
   */
  public Map<TableIdentifier, String> on() {
    return new OffSwitch(this, loop).on();
  }

  /** Every transaction there is, archive and head together, ascending by {@code commit_ts}. */
  public List<TransactionRow> transactions() {
    Head head = log.loadIfExists();
    if (!head.exists()) {
      return List.of();
    }
    List<TransactionRow> rows = new ArrayList<>(archive.rows());
    Set<Long> archived = rows.stream().map(TransactionRow::commitTs).collect(Collectors.toSet());
    for (Entry entry : head.state().entries()) {
      if (!archived.contains(entry.commitTs())) {
        rows.addAll(Archive.rowsOf(entry, isApplied(entry, head)));
      }
    }
    rows.sort((a, b) -> Long.compare(a.commitTs(), b.commitTs()));
    return rows;
  }

  /** The greatest {@code commit_ts}, in ms; 0 before the first. */
  public long upper() {
    return log.loadIfExists().upper();
  }

  public String catalogName() {
    return catalogName;
  }

  public Catalog delegate() {
    return delegate;
  }

  public TxnClock clock() {
    return clock;
  }

  public TxnConfig config() {
    return config.get();
  }

  public DataTables tables() {
    return tables;
  }

  public CommitLog log() {
    return log;
  }

  public Archive archive() {
    return archive;
  }

  /** Commits of one operation each, outside explicit transactions. */
  public StatementCommit statementCommit() {
    return new StatementCommit(log, tables, committer, config(), clock);
  }

  /** A table as of the newest head; as the catalog has it while transactions are off. */
  public DataTables.Loaded loadNewest(TableIdentifier table) {
    return load(table, log.loadIfExists());
  }

  private DataTables.Loaded load(TableIdentifier table, Head head) {
    return tables.loadPlain(table, head).orElseGet(() -> loadLogged(table, head));
  }

  /** A table as the newest head has it, whether transactions are off or not. */
  public DataTables.Loaded loadLogged(TableIdentifier table) {
    return loadLogged(table, log.loadIfExists());
  }

  private DataTables.Loaded loadLogged(TableIdentifier table, Head head) {
    DataTables.Loaded loaded = tables.load(table, head, head.upper());
    if (loaded.forgotten() && applier.apply(head, table)) {
      return tables.load(table, head, head.upper());
    }
    return loaded;
  }

  /** The same, for a caller that wants to see a dropped table's marker. */
  public DataTables.Loaded loadNewestWithDropped(TableIdentifier table) {
    Head head = log.loadIfExists();
    return tables.loadWithDropped(table, head, head.upper());
  }

  /** Whether there is a dropped table of this name whose physical one still stands. */
  public boolean hasDropped(TableIdentifier table, Transaction running) {
    if (running != null && running.drops(table)) {
      return true;
    }
    try {
      DataTables.Loaded loaded = loadNewestWithDropped(table);
      return loaded.registered() && loaded.view().dropped();
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  /** A table as of {@code readTs}, with the newest head. */
  public DataTables.Loaded loadAt(TableIdentifier table, long readTs) {
    return tables.load(table, log.loadIfExists(), readTs);
  }

  /** What may be written. */
  public WriteChecks checks() {
    return checks;
  }

  /** Commit what an explicit transaction has staged. */
  public Committed commit(Transaction transaction, Map<TableIdentifier, StagedTable> writes) {
    return committer.commit(
        new Committer.Request(
            EntryKind.COMMIT,
            key(transaction),
            transaction.readTs(),
            transaction.bornMs(),
            transaction.isolation(),
            transaction.comment(),
            transaction.reads(),
            writes,
            Map.of(),
            transaction.leftovers()));
  }

  private static CommitLoop.Key key(Transaction transaction) {
    boolean fresh = transaction.hasFreshId();
    return new CommitLoop.Key(
        transaction.id(),
        fresh ? transaction.head().upper() : transaction.readTs(),
        fresh ? CommitLoop.Origin.FRESH : CommitLoop.Origin.CALLERS,
        transaction.attempts());
  }

  /** Ask the log what became of a transaction's refused commit: the entry where it has landed. */
  public Optional<Entry> settle(Transaction transaction) {
    return loop.settle(key(transaction));
  }

  /** Register a table that is not under care; while transactions are off, it stays so. */
  void registerUnlessOff(TableIdentifier table) {
    Head head = log.loadIfExists();
    if (!head.state().off() && !load(table, head).registered()) {
      register(table);
    }
  }

  /** What an entry says of the transaction that it is; no failure hides that it has committed. */
  public Committed committed(Entry entry) {
    boolean applied = false;
    try {
      applied = isApplied(entry, log.loadIfExists());
    } catch (RuntimeException e) {
      LOG.warn(
          "committed, but whether it is applied cannot be told; txn={}",
          entry.txnId(),
          LoggedFailure.of(e));
    }
    return entry.committed(applied);
  }

  private boolean isApplied(Entry entry, Head head) {
    return !entry.applies()
        || entry.changes().stream()
            .allMatch(
                change ->
                    tables.appliedTs(head.state().nameOf(change), change.uuid())
                        >= entry.commitTs());
  }

  private Head await(long basis, long timeoutMs) {
    long deadlineMs = clock.nowMs() + timeoutMs;
    Head head = log.load();
    while (head.upper() < basis) {
      if (clock.nowMs() >= deadlineMs) {
        throw TxnException.invalidUsage(
            "25000",
            String.format(
                "the basis was not reached in time; basis=`%d` upper=`%d` timeout_ms=`%d`",
                basis, head.upper(), timeoutMs));
      }
      clock.backOff(BASIS_POLL_MS);
      head = log.load();
    }
    return head;
  }

  /** Close the catalog underneath, where it can be closed. */
  @Override
  public void close() throws IOException {
    if (delegate instanceof Closeable closeable) {
      closeable.close();
    }
  }
}
