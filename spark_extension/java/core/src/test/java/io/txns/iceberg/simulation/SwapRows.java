package io.txns.iceberg.simulation;

import io.txns.iceberg.meta.KnownMetadata;
import io.txns.iceberg.meta.LockedRows;
import io.txns.iceberg.meta.LookedAtRows;
import io.txns.iceberg.meta.Rows;
import java.sql.SQLNonTransientConnectionException;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.jdbc.UncheckedSQLException;

/**
 * All rows of the simulated database, which moves several at once, or none.
 *
 * <p>Nobody waits for a lock: who has looked at rows moves them if they stand as they were (see
 * tests/simulation/locked.py).
 */
final class SwapRows implements Rows {
  private static final Comparator<TableIdentifier> BY_NAME =
      Comparator.comparing(TableIdentifier::toString);

  private final FileIO io;
  private final KnownMetadata known = new KnownMetadata();

  SwapRows(FileIO io) {
    this.io = io;
  }

  @Override
  public LockedRows locked(TableIdentifier first, Collection<TableIdentifier> others) {
    Set<TableIdentifier> tables = new LinkedHashSet<>(List.of(first));
    others.stream().sorted(BY_NAME).forEach(tables::add);
    try {
      return new Looked(tables, CatalogSteps.rows(tables));
    } catch (StepFailed e) {
      throw failed(e);
    }
  }

  @Override
  public LockedRows lookedAt(TableIdentifier first, Map<TableIdentifier, TableMetadata> tables) {
    return new LookedAtRows(tables, io, known);
  }

  @Override
  public void known(TableMetadata metadata) {
    known.add(metadata);
  }

  @Override
  public void close() {}

  private static UncheckedSQLException failed(StepFailed e) {
    return new UncheckedSQLException(
        new SQLNonTransientConnectionException(e.getMessage()),
        "Failed to execute: %s",
        e.getMessage());
  }

  private final class Looked extends LockedRows {
    private final List<CatalogSteps.Move> moves = new ArrayList<>();

    private Looked(Set<TableIdentifier> tables, Map<TableIdentifier, String> located) {
      super(tables, located, Set.of(), io, known);
    }

    @Override
    protected void move(List<Moved> moved) {
      moved.forEach(one -> moves.add(new CatalogSteps.Move(one.table(), one.from(), one.to())));
    }

    @Override
    protected void send() {
      try {
        CatalogSteps.swapAll(moves);
      } catch (StepFailed e) {
        if (Set.of("CommitFailed", "NoSuchTable", "AlreadyExists").contains(e.type())) {
          throw new CommitFailedException("Failed to move rows: %s", e.getMessage());
        }
        throw failed(e);
      }
    }

    @Override
    protected void end() {}
  }
}
