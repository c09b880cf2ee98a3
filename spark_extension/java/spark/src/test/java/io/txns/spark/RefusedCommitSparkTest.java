package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import java.nio.file.Path;
import org.apache.spark.sql.Row;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** A COMMIT that the catalog has refused, and that has landed before anybody rolls it back. */
class RefusedCommitSparkTest extends SparkTestBase {
  @TempDir Path folder;

  @BeforeEach
  void openRefusing() {
    String prefix = "spark.sql.catalog.refusing";
    spark.conf().set(prefix, TxnSparkCatalog.class.getName());
    spark.conf().set(prefix + ".catalog-impl", RefusingCatalog.class.getName());
    spark.conf().set(prefix + ".uri", "jdbc:sqlite:" + folder.resolve("catalog.db"));
    spark.conf().set(prefix + ".warehouse", folder.resolve("files").toString());
    spark.conf().set(prefix + ".jdbc.schema-version", "V1");
    spark.sql("CREATE NAMESPACE refusing.db");
    spark.sql("USE refusing.db");
    spark.sql("CREATE TABLE t (id BIGINT) USING iceberg");
    RefusingCatalog.refuseOnce();
  }

  /** Its caller is told the row of COMMIT, and not an error after which it is run again. */
  @Test
  void aBlockThatHasLandedHasCommitted() {
    Row row = row(spark, "BEGIN ATOMIC INSERT INTO t VALUES (1); END");
    assertThat(row.<String>getAs("state")).isEqualTo("committed");
    assertThat(row.<Long>getAs("commit_ts")).isPositive();
    assertThat(state(spark)).isEqualTo("none");
    assertThat(rows(spark, "SELECT * FROM t")).containsExactly("1");
  }

  /** A rollback says so, since there is nothing to undo; nothing is open after it. */
  @Test
  void aRollbackOfWhatHasLandedSaysSo() {
    spark.sql("BEGIN");
    spark.sql("INSERT INTO t VALUES (1)");
    fails("42501", spark, "COMMIT");
    fails("25000", spark, "ROLLBACK");
    assertThat(state(spark)).isEqualTo("none");
    assertThat(rows(spark, "SELECT * FROM t")).containsExactly("1");
  }
}
