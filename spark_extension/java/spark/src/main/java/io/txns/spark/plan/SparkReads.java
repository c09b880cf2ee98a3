package io.txns.spark.plan;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.catalog.TxnTable;
import io.txns.spark.compat.Relations;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.BaseMetadataTable;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.spark.PathIdentifier;
import org.apache.iceberg.spark.Spark3Util;
import org.apache.iceberg.spark.source.SparkChangelogTable;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.analysis.AsOfTimestamp;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.write.RowLevelOperationTable;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Tells a transaction which tables Spark reads: rows when a plan is about to run, whose relations
 * may have been loaded before BEGIN, or for writing. To load a table is to look at its metadata:
 * DESCRIBE does no more, and no plan may follow.
 *
 * <p>An explicit read of the past is none of them: a snapshot by its id, a tag, a timestamp that is
 * not above {@code read_ts}. A branch goes on, by whatever syntax it is read.
 */
public final class SparkReads {

  private static final Pattern AT_TIMESTAMP = Pattern.compile("at_timestamp_(\\d+)");

  /** Names by which Iceberg reads the past; any other may be the table's own in other letters. */
  private static final Pattern PAST =
      Pattern.compile("snapshot_id_\\d+|tag_.*|at_timestamp_\\d+", Pattern.DOTALL);

  private static final long MICROS_PER_MS = 1000;

  private SparkReads() {}

  /** Whether a relation's name is the table's own, without a selector such as {@code branch_b}. */
  static boolean isPlainName(Identifier ident, TxnTable table) {
    return !(ident instanceof PathIdentifier)
        && Spark3Util.identifierToTableIdentifier(ident).equals(table.identifier());
  }

  /**
   * A table was loaded, perhaps for its metadata alone.
   *
   * @param asOf what was asked for beside the name, or null
   */
  public static void loaded(
      Transaction transaction, Identifier ident, Table table, TimeTravelSpec asOf) {
    if (!goesOn(transaction, ident, table, asOf)) {
      unseen(table);
      return;
    }
    if (table instanceof SparkTable spark && spark.table() instanceof TxnTable ours) {
      ours.noteMetadataRead(transaction);
    } else if (isAboutATable(table)) {
      transaction.recordMetadataRead(TableIdentifier.of(ident.namespace()));
    }
  }

  /**
   * A table was loaded to describe it, or of the past: what its scans find tells of no rows that go
   * on. A plan that reads it all the same counts as reading the whole table.
   */
  static void unseen(Table table) {
    if (table instanceof SparkTable spark && spark.table() instanceof TxnTable ours) {
      ours.noteNoScans();
    }
  }

  /** Rows of a table are read, or are about to be written by what they are. */
  public static void read(
      Transaction transaction, Identifier ident, Table table, TimeTravelSpec asOf) {
    if (!goesOn(transaction, ident, table, asOf)) {
      return;
    }
    if (table instanceof SparkTable spark && spark.table() instanceof TxnTable ours) {
      ours.notePlanned(transaction);
    } else if (isAboutATable(table)) {
      transaction.recordRead(TableIdentifier.of(ident.namespace()));
    }
  }

  /** A plan with the relation in it is about to run. */
  static void planned(Transaction transaction, DataSourceV2Relation relation) {
    Table table =
        relation.table() instanceof RowLevelOperationTable rewritten
            ? (Table) rewritten.table()
            : relation.table();
    if (relation.identifier().isDefined()) {
      TimeTravelSpec asOf = Relations.timeTravel(relation).orElse(null);
      read(transaction, relation.identifier().get(), table, asOf);
    }
  }

  /**
   * A plan is about to run with a relation that no catalog has given, as Iceberg's procedures make
   * them: the table itself knows its transaction.
   *
   * @return whether there is one
   */
  static boolean plannedWithoutCatalog(DataSourceV2Relation relation) {
    if (!(relation.table() instanceof SparkTable spark)) {
      return false;
    }
    org.apache.iceberg.Table table =
        spark.table() instanceof BaseMetadataTable about ? about.table() : spark.table();
    return table instanceof TxnTable ours && ours.recordRead();
  }

  /** Whether what is read of a table is not of the past, and its commits tell when it changes. */
  private static boolean goesOn(
      Transaction transaction, Identifier ident, Table table, TimeTravelSpec asOf) {
    return !(ident instanceof PathIdentifier)
        && !isOfThePast(ident, table, asOf, transaction.readTs());
  }

  /** Whether a table of Spark's tells about the data table that its namespace names. */
  private static boolean isAboutATable(Table table) {
    return table instanceof SparkChangelogTable
        || table instanceof SparkTable spark && spark.table() instanceof BaseMetadataTable;
  }

  private static boolean isOfThePast(
      Identifier ident, Table table, TimeTravelSpec asOf, long readTs) {
    if (!(table instanceof SparkTable spark) || spark.branch() != null) {
      return false;
    }
    boolean selected =
        spark.table() instanceof TxnTable ours
            && !isPlainName(ident, ours)
            && PAST.matcher(ident.name()).matches();
    if (asOf == null && !selected) {
      return false;
    }
    Matcher selector = AT_TIMESTAMP.matcher(ident.name());
    if (asOf instanceof AsOfTimestamp at) {
      return Math.floorDiv(at.timestamp(), MICROS_PER_MS) <= readTs;
    }
    return !selector.matches() || Long.parseLong(selector.group(1)) <= readTs;
  }
}
