package io.txns.iceberg.admin;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogFields;
import io.txns.iceberg.Purged;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.catalog.TableDrop;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitRequest;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.StorageTime;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.table.Claim;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.NameAside;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Consumer;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * Takes a dropped table out of the catalog for good, and deletes its files (docs/spec.md 6.8).
 *
 * <p>A catalog drops by name, whatever stands under it. So a purger first claims the marker with a
 * change like any other, which clashes in the log with whoever creates the name again; and what it
 * drops in the end is a name that only it has ever used, after a look at what stands there.
 *
 * @param claimMs for how long nobody takes over another purger's claim
 * @param maxAge the greatest age in ms of transactions; empty for what the log says
 */
public record Purger(Services services, long claimMs, OptionalLong maxAge) {
  private static final TxnLogger LOG = TxnLogger.of(Purger.class);
  private static final int SETTLE_ATTEMPTS = 5;

  /** Remove a dropped table and its files; see {@code TxnHandle}. */
  public Purged purge(TableIdentifier table) {
    if (NameAside.is(table)) {
      return finish(table, null);
    }
    List<Purged> left = leftBehind(table).stream().map(aside -> finish(aside, null)).toList();
    try {
      Head head = services.log().load();
      check(dropped(table), head.state(), time().checkedNowMs(head));
    } catch (NoSuchTableException e) {
      if (left.isEmpty()) {
        throw e;
      }
      return left.get(0);
    }
    return remove(table);
  }

  /** What purges of a table that died have moved aside. */
  private List<TableIdentifier> leftBehind(TableIdentifier table) {
    return services.delegate().listTables(table.namespace()).stream()
        .filter(one -> NameAside.is(one) && NameAside.before(one).equals(table))
        .toList();
  }

  private Purged remove(TableIdentifier table) {
    settle(table);
    String claimId = claim(table, null);
    long claimedMs = services.clock().nowMs();
    TableOperations real = claimed(table, claimId);
    PurgedFiles files = files(table, real);
    int deleted = files.deleteUnreachable();
    if (services.clock().nowMs() - claimedMs > claimMs / 2) {
      claimId = claim(table, claimId); // deleting has taken long
    }
    claimed(table, claimId);
    Purged finished = finish(movedAside(table), claimId);
    report(table, files);
    return new Purged(
        table,
        deleted + finished.deletedFiles(),
        finished.keptData(),
        files.kept().size() + finished.keptFiles());
  }

  // ---------------------------------------------------------------- may it be?

  /** A table whose view ends at a marker. */
  private Loaded.Registered dropped(TableIdentifier table) {
    if (!(services.newest().loadWithDropped(table) instanceof Loaded.Registered loaded)) {
      throw TxnException.invalidUsage(
          "42809",
          String.format(
              "the table is not under care: DROP TABLE ... PURGE removes it; table=`%s`", table));
    }
    if (!loaded.dropped()) {
      throw TxnException.invalidUsage(
          "42809",
          String.format("only a dropped table is purged: drop it first; table=`%s`", table));
    }
    return loaded;
  }

  private StorageTime time() {
    return new StorageTime(services.log(), services.clock());
  }

  private void check(Loaded loaded, LogState state, long nowMs) {
    services.checks().writable(loaded);
    TableIdentifier table = loaded.identifier();
    TableMetadata metadata = loaded.metadata();
    Claim.foreignBranch(metadata)
        .ifPresent(
            branch -> {
              throw TxnException.unsupported(
                  String.format(
                      "the branch %s holds rows that somebody wrote outside the protocol: copy what"
                          + " is needed, then drop the branch with the catalog itself; table=`%s`",
                      branch, table));
            });
    List<String> held = holds(metadata, nowMs);
    if (!held.isEmpty()) {
      throw TxnException.unsupported(
          String.format(
              "a hold needs what the table was: `txns release %s` first; table=`%s` holds=`%s`",
              held.get(0), table, String.join(", ", held)));
    }
    refuseYoung(loaded, state, nowMs);
    Claim.ts(metadata)
        .filter(since -> nowMs < since + claimMs)
        .ifPresent(
            since -> {
              throw Claim.beingPurged(services.catalogName(), table, since);
            });
  }

  /** Refuse a drop that a transaction may be older than, by what the log says of their age. */
  private void refuseYoung(Loaded loaded, LogState state, long nowMs) {
    long droppedTs = Claim.droppedTs(loaded.metadata());
    long possibleTs = droppedTs + maxAge.orElse(state.settings().maxAgeMs());
    if (nowMs < possibleTs) {
      throw TxnException.unsupported(
          String.format(
              "the drop is too young, transactions that began before it may read the table:"
                  + " possible from %s on; table=`%s` dropped_ts=`%d`",
              Claim.time(possibleTs), loaded.identifier(), droppedTs));
    }
  }

  /** The names of holds that have not come to their end. */
  private static List<String> holds(TableMetadata metadata, long nowMs) {
    List<String> names = new ArrayList<>();
    for (Map.Entry<String, SnapshotRef> ref : metadata.refs().entrySet()) {
      if (ref.getKey().startsWith(TableMark.HOLD_TAG)) {
        Long ageMs = ref.getValue().maxRefAgeMs();
        long sinceMs = metadata.snapshot(ref.getValue().snapshotId()).timestampMillis();
        if (ageMs == null || sinceMs + ageMs > nowMs) {
          names.add(ref.getKey().substring(TableMark.HOLD_TAG.length()));
        }
      }
    }
    return names;
  }

  // ---------------------------------------------------------------- the claim

  /**
   * Log another marker that claims the table, and see it applied. Gives the claim's id.
   *
   * <p>What is claimed is looked at as of the head that the claim is validated against: the name
   * may have had another life since any look before.
   *
   * @param earlierId the claim of this purger that is to last longer; null for its first one
   */
  private String claim(TableIdentifier table, String earlierId) {
    Loaded.Registered loaded = dropped(table);
    TableMetadata base = loaded.metadata();
    Consumer<LogState> judge = CommitRequest.ALLOWED;
    if (earlierId == null) {
      Head head = services.log().load();
      long nowMs = time().checkedNowMs(head);
      check(loaded, head.state(), nowMs);
      judge = state -> refuseYoung(loaded, state, nowMs); // the log may be set to another age
    } else if (!Claim.stands(base, earlierId)) {
      throw writtenSince(table);
    }
    services.checks().refuseElsewhere(loaded);
    String txnId = services.clock().newTxnId();
    StagedTable staged = StagedTable.of(loaded);
    TableMetadata claimed =
        TableMetadata.buildFrom(base).setProperties(Map.of(TableMark.PURGING, txnId)).build();
    staged.stage(base, TableDrop.marked(claimed, loaded.real()));
    services
        .committer()
        .commitOnce(
            new CommitRequest(
                EntryKind.COMMIT,
                CommitGroup.Key.fresh(txnId),
                loaded.readTs(),
                services.clock().nowMs(),
                Isolation.SNAPSHOT,
                "purge",
                new ReadSet(),
                false,
                Map.of(table, staged),
                Map.of(),
                new Leftovers(services.log()),
                judge),
            List.of());
    settle(table);
    return txnId;
  }

  /** Apply and tidy all that the log says of a table: what is gone cannot show an entry. */
  private void settle(TableIdentifier table) {
    for (int attempt = 0; attempt < SETTLE_ATTEMPTS; attempt++) {
      Head head = services.log().load();
      String uuid =
          TableNames.uuid(services.tables().loadWithDropped(table, head, head.upper()).metadata());
      boolean stands =
          head.state().entries().stream()
              .anyMatch(entry -> entry.changes().stream().anyMatch(c -> c.uuid().equals(uuid)));
      if (!stands) {
        return;
      }
      services.applier().applyRun(head, table);
      services.tidier().tidy();
    }
    throw TxnException.unsupported(
        String.format(
            "its entries cannot leave the head, another table of theirs is not applied: possible"
                + " after CALL %1$s.system.apply() and CALL %1$s.system.tidy(); table=`%2$s`",
            services.catalogName(), table));
  }

  /** A table that stands as its claim has left it. */
  private TableOperations claimed(TableIdentifier table, String claimId) {
    TableOperations real = operations(table);
    if (!Claim.stands(real.current(), claimId)) {
      throw writtenSince(table);
    }
    return real;
  }

  private TableOperations operations(TableIdentifier table) {
    return ((BaseTable) services.delegate().loadTable(table)).operations();
  }

  // ---------------------------------------------------------------- the end

  /**
   * Move the table to a name that nobody else uses. What a purger that was asleep for long moves is
   * looked at before it is dropped.
   */
  private TableIdentifier movedAside(TableIdentifier table) {
    TableIdentifier aside = NameAside.of(table, services.clock().newTxnId());
    try {
      services.delegate().renameTable(table, aside);
    } catch (UnsupportedOperationException e) {
      throw TxnException.unsupported(
          String.format(
              "the catalog cannot rename tables, and to drop one by its name alone could hit what"
                  + " somebody has made there since: its files are gone, its name stays; table=`%s`",
              table));
    }
    return aside;
  }

  /**
   * Drop what a purger has moved aside, or put it back where it came from.
   *
   * @param claimId whose it must be; null for what a purge that died has left
   */
  private Purged finish(TableIdentifier aside, String claimId) {
    TableIdentifier table = NameAside.before(aside);
    TableOperations real;
    try {
      real = operations(aside);
    } catch (NoSuchTableException e) {
      return new Purged(table, 0, false, 0); // somebody else went on with it
    }
    TableMetadata metadata = real.current();
    if (!Claim.stands(metadata, claimId)) {
      putBack(aside, table);
      throw writtenSince(table);
    }
    PurgedFiles files = files(aside, real);
    int deleted = claimId == null ? files.deleteUnreachable() : 0;
    services.delegate().dropTable(aside, false);
    deleted += files.deleteRest();
    report(table, files);
    return new Purged(table, deleted, files.keepsData(), files.kept().size());
  }

  private PurgedFiles files(TableIdentifier table, TableOperations real) {
    TableMetadata metadata = real.current();
    Set<String> used = SharedFiles.usedByOthers(services.delegate(), table, metadata.location());
    return new PurgedFiles(real.io(), metadata, used);
  }

  private static void report(TableIdentifier table, PurgedFiles files) {
    if (!files.kept().isEmpty()) {
      LOG.warn(
          LogFields.of(table),
          "{} files that the table names are not its own, and stay, as {}",
          files.kept().size(),
          files.kept().iterator().next());
    }
  }

  private void putBack(TableIdentifier aside, TableIdentifier table) {
    try {
      services.delegate().renameTable(aside, table);
      LOG.warn(LogFields.of(table), "the table was not what was to be purged: it is back");
    } catch (NoSuchTableException e) {
      LOG.info(LogFields.of(table), "somebody else has put the table back");
    } catch (AlreadyExistsException e) {
      if (services.delegate().tableExists(aside)) {
        throw TxnException.unsupported(
            String.format(
                "another table stands under the name that it belongs to: rename one of them with"
                    + " the catalog itself; table=`%s` belongs_to=`%s`",
                aside, table));
      }
    }
  }

  private static TxnException writtenSince(TableIdentifier table) {
    return TxnException.notFree(
        table,
        0,
        "somebody has written or purged the table since it was claimed: nothing of it was dropped");
  }
}
