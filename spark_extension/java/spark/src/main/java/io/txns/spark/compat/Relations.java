package io.txns.spark.compat;

import java.util.Optional;
import org.apache.iceberg.spark.source.SparkTable;
import org.apache.spark.sql.catalyst.analysis.TimeTravelSpec;
import org.apache.spark.sql.connector.catalog.Table;
import org.apache.spark.sql.execution.datasources.v2.DataSourceV2Relation;

/**
 * Tables in plans. A relation knows since Spark 4.1 which moment it was asked for; Iceberg's table
 * for Spark 4.0 is made with one argument more.
 */
public final class Relations {

  private Relations() {}

  /** A table of Iceberg's as Spark reads and writes it. */
  public static SparkTable table(org.apache.iceberg.Table table) {
    return new SparkTable(table);
  }

  /** The moment or version that a relation was asked for beside its name; empty for none. */
  public static Optional<TimeTravelSpec> timeTravel(DataSourceV2Relation relation) {
    return relation.timeTravelSpec().isDefined()
        ? Optional.of(relation.timeTravelSpec().get())
        : Optional.empty();
  }

  /** The same relation over another state of its table. */
  public static DataSourceV2Relation over(Table table, DataSourceV2Relation relation) {
    return relation.copy(
        table,
        relation.output(),
        relation.catalog(),
        relation.identifier(),
        relation.options(),
        relation.timeTravelSpec());
  }
}
