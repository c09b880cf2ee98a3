package io.txns.iceberg;

import io.txns.iceberg.admin.ApplyMode;
import io.txns.iceberg.admin.OffSwitch;
import io.txns.iceberg.admin.Purger;
import io.txns.iceberg.admin.Repairer;
import io.txns.iceberg.admin.TableRecovery;
import io.txns.iceberg.catalog.Beginning;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.commit.AppliedTo;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.Turn;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.table.Claim;
import java.io.Closeable;
import java.io.IOException;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.function.Supplier;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * The protocol over one catalog: begin transactions, put tables under care, apply, tidy, repair.
 *
 * <p>Threads may share a handle. It opens nothing by itself: the commit table is created by the
 * first registration, or the first table that is created through it.
 */
public final class TxnHandle implements Closeable {
  private final Services services;
  private final Beginning beginning;
  private volatile Seen seen = new Seen(null, SeenHead.NONE);

  private record Seen(Head of, SeenHead what) {}

  private TxnHandle(Services services) {
    this.services = services;
    this.beginning = new Beginning(services);
  }

  /**
   * Open the protocol over a catalog; its commits share swaps with those of no other handle.
   *
   * @param catalogName the name under which messages and table names know it
   * @param delegate the catalog that the tables live in; not a caching one
   */
  public static TxnHandle open(
      String catalogName, Catalog delegate, TxnConfig config, TxnClock clock) {
    return open(catalogName, delegate, config, clock, TxnMetrics.NONE);
  }

  /** The same, counted. */
  public static TxnHandle open(
      String catalogName, Catalog delegate, TxnConfig config, TxnClock clock, TxnMetrics metrics) {
    return openAlone(catalogName, Map.of(), delegate, config, clock, metrics);
  }

  /**
   * The same over a catalog whose options are known.
   *
   * @param options those that it was made with; {@code txns.apply=atomic} needs them
   */
  public static TxnHandle openAlone(
      String catalogName,
      Map<String, String> options,
      Catalog delegate,
      TxnConfig config,
      TxnClock clock,
      TxnMetrics metrics) {
    CommitGroup own = new CommitGroup();
    return new TxnHandle(
        Services.over(catalogName, delegate, options, () -> config, clock, uuid -> own, metrics));
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
    return open(catalogName, catalogOptions, delegate, config, clock, TxnMetrics.NONE);
  }

  /** The same, counted. */
  public static TxnHandle open(
      String catalogName,
      Map<String, String> catalogOptions,
      Catalog delegate,
      Supplier<TxnConfig> config,
      TxnClock clock,
      TxnMetrics metrics) {
    Map<String, String> options = Map.copyOf(catalogOptions);
    TableIdentifier commitTable = config.get().commitTable();
    return new TxnHandle(
        Services.over(
            catalogName,
            delegate,
            options,
            config,
            clock,
            uuid ->
                CommitGroup.of(new CommitGroup.Sharing(catalogName, options, commitTable, uuid)),
            metrics));
  }

  /** The parts underneath, for this package's own rooms. */
  public Services services() {
    return services;
  }

  /**
   * Begin a transaction.
   *
   * <p>With the id of a transaction that has committed already, the answer is {@link
   * Transaction.State#COMMITTED} at once.
   *
   * @throws TxnException 25000 when the basis is not reached in time, or an explicit {@code
   *     read_ts} lies above the upper or below 0; 0A000 while transactions are off
   */
  public Transaction begin(BeginOptions options) {
    return begin(options, null, 0);
  }

  /**
   * The same for a next try: it is as old as the one before, and the younger wait for it. It waits
   * for nobody: {@link #awaitTurn} before.
   *
   * @param lost the try before, undone; null for none
   * @param tookMs how long that took, in ms
   */
  public Transaction begin(BeginOptions options, Transaction lost, long tookMs) {
    String id = options.id() == null ? clock().newTxnId() : options.id();
    Turn turn = lost == null ? null : again(lost, tookMs - lost.waitedMs(), id);
    if (turn == null) {
      return beginning.explicit(options, id);
    }
    try {
      return beginning.explicit(options, id).inTurn(turn);
    } catch (RuntimeException e) {
      services.reserver().giveUp(turn); // nobody else knows of it
      throw e;
    }
  }

  private Turn again(Transaction lost, long tookMs, String id) {
    return services.reserver().again(lost.turn(), tookMs, lost.lostAt(), id);
  }

  /**
   * Wait, without reserving anything, for who is older than the next try of a lost transaction, for
   * two minutes at most.
   *
   * @throws TxnException 57014 where it is cancelled
   */
  public void awaitTurn(Transaction lost) {
    services.reserver().await(lost.turn(), lost.lostAt(), lost.id());
  }

  /** Take back what was reserved for a transaction that has lost, and is not tried again. */
  public void giveUp(Transaction lost) {
    services.reserver().giveUp(lost.turn());
  }

  /**
   * Begin the implicit transaction of one statement: its reads are pinned at the upper, its one
   * Iceberg operation commits at once, on whatever base Iceberg's own retry has come to.
   */
  public Transaction beginStatement() {
    Head head = log().loadIfExists();
    return beginning.statement(head, head.upper());
  }

  /** The same for a statement whose tables were loaded before it, from {@code readTs} on, in ms. */
  public Transaction beginStatement(long readTs) {
    return beginning.statement(log().loadIfExists(), readTs);
  }

  /** Whether what single statements read is validated, as options may ask for. */
  public boolean validatesStatements() {
    return beginning.validatesStatements();
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
    return services.registrar().register(table);
  }

  /**
   * Take a table from care; idempotent. Gives the {@code commit_ts} from which it is a plain one.
   */
  public long forget(TableIdentifier table) {
    return services.registrar().forget(table);
  }

  /** Take in what strangers wrote to a table, as an entry of its own. Gives its commit_ts. */
  public long repairAdopt(TableIdentifier table) {
    return new Repairer(services).adopt(table);
  }

  /** Set aside what strangers wrote to a table, on a branch. Gives the entry's commit_ts. */
  public long repairReject(TableIdentifier table) {
    return new Repairer(services).reject(table);
  }

  /** Bring a table into the epoch of a log that was recovered. Gives the log's upper, in ms. */
  public long recover(TableIdentifier table) {
    return new TableRecovery(services).recover(table);
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
    return new Purger(services, claimMs, OptionalLong.empty()).purge(table);
  }

  /** Apply what is outstanding on every table. Gives the number of tables with entries left. */
  public int apply() {
    return services.applier().applyAll().size();
  }

  /** Apply what is outstanding on one table; 1 where entries are left, else 0. */
  public int apply(TableIdentifier table) {
    return services.applier().apply(table) ? 0 : 1;
  }

  /** Archive what is applied. Gives the number of entries that left the head. */
  public int tidy() {
    return log().loadIfExists().exists() ? services.tidier().tidy() : 0;
  }

  /** How what is committed comes to its tables, and why that way, by what is known of the log. */
  public ApplyMode applyMode() {
    return ApplyMode.of(services, log().newest());
  }

  /** Who has reserved which tables after losing, in words, by what is known of the log. */
  public List<String> reservations() {
    LogState state = log().newest().state();
    return state.reserved().stream()
        .map(
            each ->
                String.format(
                    "%s: %s, for at most %d s",
                    each.txnId(), String.join(", ", state.namesOf(each)), each.lastsSeconds()))
        .toList();
  }

  /** What the log is set to: for all processes, each of which may be stricter. */
  public LogSettings settings() {
    return log().loadIfExists().state().settings();
  }

  /**
   * Set the log; what is null stays. Transactions that are running go by it, too. The commit table
   * is created where there has been none.
   *
   * @param maxAgeMs the greatest age of a transaction, in ms; 1 s to 30 days
   * @param idRetentionMs how far back a caller's id is looked for, in ms; no less than that
   * @param apply when what has committed is carried over to its tables
   * @return what it is set to now
   * @throws TxnException 22023 saying what they may be
   */
  public LogSettings changeSettings(Long maxAgeMs, Long idRetentionMs, TxnConfig.Apply apply) {
    log().loadOrCreate(); // whoever sets it sets the lake up
    String txnId = clock().newTxnId();
    return services
        .loop()
        .append(
            CommitGroup.Key.fresh(txnId),
            (head, commitTs) ->
                head.settings(
                    commitTs,
                    txnId,
                    head.state().settings().changed(maxAgeMs, idRetentionMs, apply)))
        .settings();
  }

  /**
   * Turn the protocol's writers away and apply everything: the way out in an incident.
   *
   * @return the number of tables with entries left
   */
  public int off() {
    new OffSwitch(services).off();
    return apply();
  }

  /**
   * Let the protocol's writers in again, and adopt what others wrote to the tables.
   *
   * @return the tables for which that did not work, each with the reason and its cure
   */
  public Map<TableIdentifier, String> on() {
    return new OffSwitch(services).on();
  }

  /** Every transaction there is, archive and head together, ascending by {@code commit_ts}. */
  public List<TransactionRow> transactions() {
    return transactions(0, Integer.MAX_VALUE);
  }

  /**
   * What has committed, archive and head together, ascending by {@code commit_ts}: of a log of
   * years a part that fits in memory.
   *
   * @param after only entries above it, in ms
   * @param limit the newest entries, so many at most
   */
  public List<TransactionRow> transactions(long after, int limit) {
    Head head = log().loadIfExists();
    if (!head.exists()) {
      return List.of();
    }
    AppliedTo applied = new AppliedTo(services.tables(), head.state());
    return services.timeline().rows(head.state(), applied::everywhere, after, limit);
  }

  /** The greatest {@code commit_ts}, in ms; 0 before the first. */
  public long upper() {
    return log().loadIfExists().upper();
  }

  /**
   * What the newest head says that this handle has loaded or made; loads nothing, and counts a head
   * once however often somebody looks.
   */
  public SeenHead seen() {
    Head head = log().newest();
    Seen known = seen;
    if (known.of() != head) {
      known = new Seen(head, seen(head));
      seen = known;
    }
    return known.what();
  }

  private static SeenHead seen(Head head) {
    if (!head.exists()) {
      return SeenHead.NONE;
    }
    LogState state = head.state();
    return new SeenHead(
        head.metadata().lastSequenceNumber(),
        state.entries().size(),
        head.recordBytes(),
        state.upper(),
        state.oldestMaybeUnapplied(),
        state.off());
  }

  private CommitLog log() {
    return services.log();
  }

  private TxnClock clock() {
    return services.clock();
  }

  /** Close the catalog underneath, where it can be closed. */
  @Override
  public void close() throws IOException {
    services.applier().close();
    services.rows().close();
    if (services.delegate() instanceof Closeable closeable) {
      closeable.close();
    }
  }
}
