package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import java.util.List;
import org.apache.spark.sql.SparkSession;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * Transactions over Iceberg's catalog of files, which Iceberg's own Spark catalog knows by its
 * class.
 */
class HadoopCatalogTest extends SparkTestBase {

  @TempDir Path folder;

  @BeforeEach
  void catalog() {
    String prefix = "spark.sql.catalog.files";
    for (SparkSession session : List.of(spark, other)) {
      session.conf().set(prefix + ".type", "hadoop");
      session.conf().set(prefix + ".warehouse", folder.toString());
      session.conf().set(prefix, TxnSparkCatalog.class.getName());
    }
  }

  @Test
  void namespacesTablesAndTransactions() {
    spark.sql("CREATE NAMESPACE files.db");
    for (String name : List.of("a", "b")) {
      spark.sql("CREATE TABLE files.db." + name + " (id BIGINT) USING iceberg");
    }
    spark.sql("USE files.db");
    spark.sql("BEGIN");
    spark.sql("INSERT INTO a VALUES (1)");
    spark.sql("INSERT INTO b VALUES (2), (3)");
    assertThat(count(other, "files.db.a")).isZero();
    assertThat(row(spark, "COMMIT").<Boolean>getAs("applied")).isTrue();
    assertThat(count(other, "files.db.a")).isEqualTo(1);
    assertThat(count(other, "files.db.b")).isEqualTo(2);
  }
}
