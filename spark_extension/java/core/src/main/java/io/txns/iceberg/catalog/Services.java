package io.txns.iceberg.catalog;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.commit.Adoption;
import io.txns.iceberg.commit.Applier;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitLoop;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.commit.HeadBounds;
import io.txns.iceberg.commit.Registrar;
import io.txns.iceberg.commit.Reserver;
import io.txns.iceberg.commit.Tidier;
import io.txns.iceberg.log.Archive;
import io.txns.iceberg.log.CommitLog;
import io.txns.iceberg.log.Timeline;
import io.txns.iceberg.stage.WriteChecks;
import io.txns.iceberg.table.AllowedPlaces;
import io.txns.iceberg.table.DataTables;
import java.util.List;
import java.util.Map;
import java.util.function.Function;
import java.util.function.Supplier;
import org.apache.iceberg.catalog.Catalog;

/**
 * The parts of the protocol over one catalog, wired together.
 *
 * @param catalogName the name under which messages and table names know the catalog
 * @param delegate the catalog that the tables live in
 * @param config asked each time that an option is needed
 */
public record Services(
    String catalogName,
    Catalog delegate,
    Supplier<TxnConfig> config,
    TxnClock clock,
    CommitLog log,
    Timeline timeline,
    DataTables tables,
    NewestTables newest,
    WriteChecks checks,
    AllowedPlaces places,
    CommitLoop loop,
    Applier applier,
    Tidier tidier,
    Adoption adoption,
    Committer committer,
    Registrar registrar,
    Reserver reserver,
    Autocommit autocommit,
    MovableRows rows) {

  /**
   * Wire the parts over a catalog.
   *
   * @param options those that the catalog was made with
   * @param groups which group the commits of a commit table, by its uuid, wait in
   * @param metrics where they are counted
   */
  public static Services over(
      String catalogName,
      Catalog delegate,
      Map<String, String> options,
      Supplier<TxnConfig> config,
      TxnClock clock,
      Function<String, CommitGroup> groups,
      TxnMetrics metrics) {
    MovableRows rows = new MovableRows(delegate, options, config);
    CommitLog log =
        new CommitLog(
            delegate,
            config.get().commitTable(),
            clock,
            () -> List.copyOf(config.get().createLocations()),
            rows::known);
    Timeline timeline = new Timeline(new Archive(log));
    DataTables tables = new DataTables(delegate, log, timeline, clock, rows::known);
    AllowedPlaces places = new AllowedPlaces(delegate, config);
    WriteChecks checks = new WriteChecks(catalogName, config, log, tables, places, clock);
    Applier applier = new Applier(delegate, log, tables, places, clock);
    Tidier tidier = new Tidier(config, log, tables, clock, rows);
    HeadBounds bounds = new HeadBounds(log, applier, tidier, clock);
    CommitLoop loop = new CommitLoop(log, timeline, bounds, clock, groups, rows);
    Adoption adoption = new Adoption(log, timeline, tables, checks, applier, clock);
    Committer committer =
        new Committer(
            config, log, loop, timeline, rows, tables, places, applier, adoption, tidier, clock,
            metrics);
    return new Services(
        catalogName,
        delegate,
        config,
        clock,
        log,
        timeline,
        tables,
        new NewestTables(log, tables, applier),
        checks,
        places,
        loop,
        applier,
        tidier,
        adoption,
        committer,
        new Registrar(delegate, log, loop, tables, checks, applier, committer, clock),
        new Reserver(log, loop, clock),
        new Autocommit(log, tables, committer, config, clock),
        rows);
  }
}
