package io.txns.spark.procedure;

import io.txns.iceberg.LogSettings;
import io.txns.iceberg.Purged;
import io.txns.iceberg.TransactionRow;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.PlanCaches;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.function.Function;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.spark.source.HasIcebergCatalog;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.analysis.ResolvedProcedure;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.util.GenericArrayData;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.DataTypes;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.unsafe.types.UTF8String;
import scala.jdk.javaapi.CollectionConverters;

/** The procedures of a catalog of ours, in its namespace {@code system}. */
public final class Procedures {

  public static final List<String> NAMES =
      List.of(
          "register",
          "forget",
          "apply",
          "tidy",
          "repair",
          "purge",
          "transactions",
          "settings",
          "off",
          "on");

  /** Procedures that change what no transaction can take back, or nothing that a reader sees. */
  private static final Set<String> NOT_INSIDE =
      Set.of(
          "expire_snapshots",
          "remove_orphan_files",
          "rewrite_data_files",
          "rewrite_manifests",
          "rewrite_position_delete_files",
          "compute_table_stats",
          "compute_partition_stats",
          "rewrite_table_path",
          "migrate",
          "snapshot",
          "register_table",
          "register",
          "forget",
          "purge",
          "tidy",
          "repair",
          "settings",
          "off",
          "on");

  /** Procedures, ours and Iceberg's, that may run at any time: they stage nothing. */
  private static final Set<String> READS =
      Set.of("transactions", "apply", "ancestors_of", "create_changelog_view");

  private static final StructType COMMIT_TS =
      new StructType().add("commit_ts", DataTypes.LongType, false);
  private static final StructType TABLES_LEFT =
      new StructType().add("tables_left", DataTypes.IntegerType, false);
  private static final StructType NOT_ADOPTED =
      TABLES_LEFT.add("not_adopted", DataTypes.createArrayType(DataTypes.StringType, false), false);
  private static final ProcedureParameter TABLE =
      ProcedureParameter.in("table", DataTypes.StringType).build();
  private static final ProcedureParameter OPTIONAL_TABLE =
      ProcedureParameter.in("table", DataTypes.StringType).defaultValue("NULL").build();
  private static final ProcedureParameter OPTIONAL_LIMIT =
      ProcedureParameter.in("limit", DataTypes.IntegerType).defaultValue("NULL").build();
  private static final ProcedureParameter OPTIONAL_AFTER =
      ProcedureParameter.in("after", DataTypes.LongType).defaultValue("NULL").build();
  private static final ProcedureParameter ACTION =
      ProcedureParameter.in("action", DataTypes.StringType).build();

  private static final StructType TRANSACTIONS =
      new StructType()
          .add("commit_ts", DataTypes.LongType, false)
          .add("committed_at", DataTypes.TimestampType, false)
          .add("txn_id", DataTypes.StringType)
          .add("kind", DataTypes.StringType, false)
          .add("table_name", DataTypes.StringType)
          .add("table_uuid", DataTypes.StringType)
          .add("operation", DataTypes.StringType)
          .add("parent_snapshot_id", DataTypes.LongType)
          .add("snapshot_id", DataTypes.LongType)
          .add("added_records", DataTypes.LongType)
          .add("deleted_records", DataTypes.LongType)
          .add("read_ts", DataTypes.LongType)
          .add("isolation", DataTypes.StringType)
          .add("engine", DataTypes.StringType)
          .add("comment", DataTypes.StringType)
          .add("applied", DataTypes.BooleanType, false);

  private static final StructType PURGED =
      new StructType()
          .add("table_name", DataTypes.StringType, false)
          .add("deleted_files", DataTypes.IntegerType, false)
          .add("kept_data", DataTypes.BooleanType, false)
          .add("kept_files", DataTypes.IntegerType, false);

  private static final StructType SETTINGS =
      new StructType()
          .add("max_age_s", DataTypes.LongType, false)
          .add("id_retention_s", DataTypes.LongType, false)
          .add("apply", DataTypes.StringType, false);

  private static final long MICROS_PER_MS = 1000;
  private static final long MS_PER_S = 1000;

  private Procedures() {}

  public static boolean isSystem(String[] namespace) {
    return namespace.length == 1 && namespace[0].equalsIgnoreCase("system");
  }

  /** The names of those in a namespace. */
  public static List<String> in(String[] namespace) {
    return isSystem(namespace) ? NAMES : List.of();
  }

  /** Whether a procedure, of whatever Iceberg catalog, changes nothing that a transaction keeps. */
  public static boolean isRead(ResolvedProcedure procedure) {
    return procedure.catalog() instanceof HasIcebergCatalog
        && isSystem(procedure.ident().namespace())
        && READS.contains(procedure.ident().name().toLowerCase(Locale.ROOT));
  }

  /**
   * Refuses what must not run inside a transaction.
   *
   * @throws TxnException 0A000
   */
  public static void checkAllowed(String name, TxnSession session) {
    if (NOT_INSIDE.contains(name.toLowerCase(Locale.ROOT))) {
      session.refuseInside("procedure " + name, "run it before BEGIN or after COMMIT");
    }
  }

  /** A procedure of ours, or null. */
  public static UnboundProcedure find(String name, TransactionCatalog catalog) {
    TxnHandle handle = catalog.handle();
    return switch (name.toLowerCase(Locale.ROOT)) {
      case "register" ->
          new TxnProcedure(
              "register",
              "Puts a table under the care of the commit table",
              COMMIT_TS,
              args -> changed(catalog, handle.register(table(catalog, args))),
              TABLE);
      case "forget" ->
          new TxnProcedure(
              "forget",
              "Takes a table from the care of the commit table",
              COMMIT_TS,
              args -> changed(catalog, handle.forget(table(catalog, args))),
              TABLE);
      case "apply" ->
          new TxnProcedure(
              "apply",
              "Carries committed changes over to their tables; says how many tables have some left",
              TABLES_LEFT,
              args -> row(args.isNullAt(0) ? handle.apply() : handle.apply(table(catalog, args))),
              OPTIONAL_TABLE);
      case "tidy" ->
          new TxnProcedure(
              "tidy",
              "Moves applied entries from the head into the archive",
              new StructType().add("tidied_entries", DataTypes.IntegerType, false),
              args -> row(handle.tidy()));
      case "repair" ->
          new TxnProcedure(
              "repair",
              "Adopts or rejects what was written to a table outside the protocol",
              COMMIT_TS,
              args -> changed(catalog, repair(handle, table(catalog, args), args)),
              TABLE,
              ACTION);
      case "purge" ->
          new TxnProcedure(
              "purge",
              "Takes a dropped table out of the catalog for good, and deletes its files",
              PURGED,
              args -> purged(handle.purge(table(catalog, args))),
              TABLE);
      case "transactions" ->
          new TxnProcedure(
              "transactions",
              "Lists what has committed, applied or not",
              TRANSACTIONS,
              args ->
                  transactions(handle, args).stream()
                      .map(Procedures::toRow)
                      .toArray(InternalRow[]::new),
              OPTIONAL_LIMIT,
              OPTIONAL_AFTER);
      case "settings" ->
          new TxnProcedure(
              "settings",
              "Shows what the log is set to, for all of its processes, or sets what is given",
              SETTINGS,
              args -> settings(handle, args),
              optional("max_age_s", DataTypes.LongType),
              optional("id_retention_s", DataTypes.LongType),
              optional("apply", DataTypes.StringType));
      case "off" ->
          new TxnProcedure(
              "off",
              "Turns the writers of transactions away and applies everything",
              TABLES_LEFT,
              args -> row(handle.off()));
      case "on" ->
          new TxnProcedure(
              "on",
              "Lets writers in again, and adopts what others wrote to the tables",
              NOT_ADOPTED,
              args -> turnedOn(catalog, handle.on()));
      default -> null;
    };
  }

  private static List<TransactionRow> transactions(TxnHandle handle, InternalRow args) {
    int limit = args.isNullAt(0) ? Integer.MAX_VALUE : args.getInt(0);
    if (limit < 0) {
      throw TxnException.invalidUsage("42000", "transactions: limit is below 0; limit=" + limit);
    }
    return handle.transactions(args.isNullAt(1) ? 0 : args.getLong(1), limit);
  }

  private static long repair(TxnHandle handle, TableIdentifier table, InternalRow args) {
    String action = args.getUTF8String(1) == null ? "" : args.getUTF8String(1).toString();
    return switch (action.toLowerCase(Locale.ROOT)) {
      case "adopt" -> handle.repairAdopt(table);
      case "reject" -> handle.repairReject(table);
      case "recover" -> handle.recover(table);
      default ->
          throw TxnException.invalidUsage(
              "42000",
              "repair: action is '" + action + "', expected 'adopt', 'reject' or 'recover'");
    };
  }

  private static ProcedureParameter optional(String name, DataType type) {
    return ProcedureParameter.in(name, type).defaultValue("NULL").build();
  }

  private static InternalRow[] settings(TxnHandle handle, InternalRow args) {
    Long maxAgeMs = args.isNullAt(0) ? null : milliseconds(args.getLong(0));
    Long idRetentionMs = args.isNullAt(1) ? null : milliseconds(args.getLong(1));
    TxnConfig.Apply apply =
        args.isNullAt(2) ? null : TxnConfig.Apply.parse(args.getUTF8String(2).toString());
    LogSettings set =
        maxAgeMs == null && idRetentionMs == null && apply == null
            ? handle.settings()
            : handle.changeSettings(maxAgeMs, idRetentionMs, apply);
    return row(
        set.maxAgeMs() / MS_PER_S,
        set.idRetentionMs() / MS_PER_S,
        UTF8String.fromString(set.apply().name().toLowerCase(Locale.ROOT)));
  }

  /** Of what no log is set to as much as there is: it is told what it may be. */
  private static long milliseconds(long seconds) {
    long most = Long.MAX_VALUE / MS_PER_S;
    return Math.max(-most, Math.min(seconds, most)) * MS_PER_S;
  }

  private static TableIdentifier table(TransactionCatalog catalog, InternalRow args) {
    if (args.isNullAt(0) || args.getUTF8String(0).toString().isBlank()) {
      throw TxnException.invalidUsage("42000", "the table's name is missing");
    }
    String name = args.getUTF8String(0).toString();
    SparkSession session = active();
    List<String> parts = parse(session, name);
    TransactionCatalog named =
        Catalogs.namesCatalog(session.sessionState().catalogManager(), parts)
            ? Catalogs.ofName(session, parts)
            : catalog;
    if (named != catalog) {
      throw TxnException.invalidUsage(
          "42000", String.format("%s is not a table of catalog %s", name, catalog.name()));
    }
    return Spark3Util.identifierToTableIdentifier(Catalogs.identifier(session, parts, catalog));
  }

  private static List<String> parse(SparkSession session, String name) {
    try {
      return List.copyOf(
          CollectionConverters.asJava(
              session.sessionState().sqlParser().parseMultipartIdentifier(name)));
    } catch (ParseException e) {
      throw TxnException.invalidUsage("42000", "'" + name + "' is not a table's name");
    }
  }

  private static SparkSession active() {
    return (SparkSession) org.apache.spark.sql.SparkSession.active();
  }

  private static InternalRow[] purged(Purged purged) {
    return row(
        UTF8String.fromString(purged.table().toString()),
        purged.deletedFiles(),
        purged.keptData(),
        purged.keptFiles());
  }

  private static InternalRow[] turnedOn(
      TransactionCatalog catalog, Map<TableIdentifier, String> left) {
    Object[] words =
        left.entrySet().stream()
            .map(table -> UTF8String.fromString(table.getKey() + ": " + table.getValue()))
            .toArray();
    return changed(catalog, left.size(), new GenericArrayData(words));
  }

  private static InternalRow[] changed(TransactionCatalog catalog, Object... answer) {
    PlanCaches.refresh(active(), catalog);
    return row(answer);
  }

  private static InternalRow[] row(Object... values) {
    return new InternalRow[] {new GenericInternalRow(values)};
  }

  private static InternalRow toRow(TransactionRow row) {
    Function<String, UTF8String> text = UTF8String::fromString;
    return new GenericInternalRow(
        new Object[] {
          row.commitTs(),
          row.committedAt() * MICROS_PER_MS,
          text.apply(row.txnId()),
          text.apply(row.kind()),
          text.apply(row.table()),
          text.apply(row.tableUuid()),
          text.apply(row.operation()),
          row.parentSnapshotId(),
          row.snapshotId(),
          row.addedRecords(),
          row.deletedRecords(),
          row.readTs(),
          text.apply(row.isolation()),
          text.apply(row.engine()),
          text.apply(row.comment()),
          row.applied()
        });
  }
}
