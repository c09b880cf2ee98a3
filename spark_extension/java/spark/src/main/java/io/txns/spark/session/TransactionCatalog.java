package io.txns.spark.session;

import io.txns.iceberg.TxnHandle;
import java.util.Set;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.spark.sql.SparkSession;
import org.apache.spark.sql.connector.catalog.Identifier;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.connector.catalog.TableCatalog;

/**
 * A catalog of Spark's with transactions over its tables, as sessions, rules and commands use it.
 */
public interface TransactionCatalog extends TableCatalog {

  /** A catalog of Spark's whose Iceberg tables another one has transactions over. */
  interface Around {
    /** The catalog of its Iceberg tables. */
    TransactionCatalog tables();
  }

  /** The protocol over its tables. */
  TxnHandle handle();

  /**
   * Bind the catalog to the session whose catalog manager it was found in: Spark may have built it
   * while another session was the active one.
   */
  TransactionCatalog attach(SparkSession session);

  /** The tables that were loaded since {@link #takeLoaded} was called. */
  Set<Identifier> loaded();

  /** The same, which from then on count as not loaded. */
  Set<Identifier> takeLoaded();

  /** A table as the session sees it now. */
  Table loadTableAgain(TableIdentifier table);

  /** A table as of {@code readTs}, in ms. */
  Table loadTableAt(TableIdentifier table, long readTs);

  /**
   * Brings a table under care that a statement is about to write, if all that are written come
   * under care. Loading it says so in time only where Spark loads it for the write: a statement
   * that reads it first writes what Spark has kept (SPARK-58370).
   */
  void willWrite(Identifier table);

  /**
   * Adopts, outside a transaction, what strangers have appended to a table that a statement is to
   * replace: it may read the table first, and would replace rows that it has not seen.
   */
  void willReplace(Identifier table);
}
