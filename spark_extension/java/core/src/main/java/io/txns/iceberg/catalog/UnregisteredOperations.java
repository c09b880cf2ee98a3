package io.txns.iceberg.catalog;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.commit.Registrar;
import io.txns.iceberg.meta.DelegatingOperations;
import io.txns.iceberg.meta.Timestamps;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.stage.WrittenSnapshot;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.TableMark;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Operations of a table that nobody registered, or of any while transactions are off: the catalog's
 * own, but for four cases.
 *
 * <p>Inside an explicit transaction they do not write; setting {@code txns.commit-table} registers
 * the table; a table under care is not written behind the log's back once transactions are on; of a
 * table that a fast clock has put ahead, what is written follows its times (docs/spec.md, 8.3).
 */
final class UnregisteredOperations extends DelegatingOperations {
  private final WriteChecks checks;
  private final Registrar registrar;
  private final TableIdentifier commitTable;
  private final TxnClock clock;
  private final Loaded loaded;
  private final TableOperations real;
  private final Supplier<Transaction> transaction;
  private final TableIdentity identity;
  private volatile Seen seen = new Seen(null, null);

  /** A state of the table, and what of it one can build on: the same but where it is ahead. */
  private record Seen(TableMetadata stored, TableMetadata shown) {}

  UnregisteredOperations(
      WriteChecks checks,
      Registrar registrar,
      TableIdentifier commitTable,
      TxnClock clock,
      Loaded loaded,
      Supplier<Transaction> transaction) {
    this.checks = checks;
    this.registrar = registrar;
    this.commitTable = commitTable;
    this.clock = clock;
    this.loaded = loaded;
    this.real = loaded.real();
    this.transaction = transaction;
    this.identity = TableIdentity.of(real.current());
  }

  @Override
  public TableOperations real() {
    return real;
  }

  @Override
  public TableMetadata current() {
    return shown(real.current());
  }

  @Override
  public TableMetadata refresh() {
    TableMetadata newest = real.refresh();
    if (newest != null && !identity.is(TableIdentity.of(newest))) {
      throw TxnException.anotherTable(loaded.identifier());
    }
    return shown(newest);
  }

  /** The table as one can build on it; one object for each state, by which Iceberg tells them. */
  private synchronized TableMetadata shown(TableMetadata current) {
    if (current != seen.stored()) {
      seen =
          new Seen(current, current == null ? null : Timestamps.notAhead(current, clock.nowMs()));
    }
    return seen.shown();
  }

  /**
   * Commit what was built on what was shown.
   *
   * <p>One look at what was: another thread that refreshes meanwhile shows a state that this was
   * not built on, and Iceberg builds it again on what is no newest one.
   */
  private void commitReal(TableMetadata base, TableMetadata metadata) {
    Seen at = seen;
    if (base == null || base != at.shown() || base == at.stored()) {
      real.commit(base, metadata);
    } else if (base != metadata) {
      Timestamps.commitFollowing(real, at.stored(), metadata);
    }
  }

  @Override
  public void commit(TableMetadata base, TableMetadata metadata) {
    checks.refuseCommitTable(loaded);
    Transaction running = transaction.get();
    if (running != null && running.explicit() && running.state() == Transaction.State.ACTIVE) {
      running.checkWritable();
      checks.writable(loaded);
    }
    if (base != null && TableMark.of(base).isPresent()) {
      checks.checkPlain(loaded.identifier(), base);
    }
    if (registers(base, metadata)) {
      register(base, metadata);
    } else {
      commitUnregistered(running, base, metadata);
    }
  }

  private static boolean registers(TableMetadata base, TableMetadata metadata) {
    return base != null
        && metadata.properties().containsKey(TableMark.COMMIT_TABLE)
        && !base.properties().containsKey(TableMark.COMMIT_TABLE);
  }

  private void commitUnregistered(Transaction running, TableMetadata base, TableMetadata metadata) {
    commitReal(base, metadata);
    if (running != null && base != null) {
      running.committedElsewhere(
          metadata.snapshots().stream()
              .filter(snapshot -> base.snapshot(snapshot.snapshotId()) == null)
              .map(snapshot -> new WrittenSnapshot(snapshot, metadata, real.io()))
              .toList());
    }
  }

  private void register(TableMetadata base, TableMetadata metadata) {
    String wanted = metadata.properties().get(TableMark.COMMIT_TABLE);
    if (!wanted.equals(commitTable.toString())) {
      throw TxnException.unsupported(
          String.format(
              "this catalog's commit table is %s: use a catalog with txns.commit-table=%s;"
                  + " table=`%s`",
              commitTable, wanted, loaded.identifier()));
    }
    commitReal(
        base,
        TableMetadata.buildFrom(metadata).removeProperties(Set.of(TableMark.COMMIT_TABLE)).build());
    registrar.register(loaded.identifier());
    real.refresh();
  }
}
