package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.spark.WritePlans.Dml;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

class RowCountsTest {

  @Test
  void insertCountsAddedRecords() {
    assertThat(RowCounts.of(Dml.INSERT, List.of(Map.of("added-records", "3"))))
        .isEqualTo(new RowCounts(0, 0, 3));
  }

  @Test
  void deleteCountsWhatDidNotComeBack() {
    Map<String, String> copyOnWrite = Map.of("deleted-records", "10", "added-records", "7");
    Map<String, String> mergeOnRead =
        Map.of("added-position-deletes", "5", "removed-position-deletes", "2");
    Map<String, String> wholeFiles =
        Map.of("deleted-records", "10", "removed-position-deletes", "4");

    assertThat(RowCounts.of(Dml.DELETE, List.of(copyOnWrite)).deleted()).isEqualTo(3);
    assertThat(RowCounts.of(Dml.DELETE, List.of(mergeOnRead)).deleted()).isEqualTo(3);
    assertThat(RowCounts.of(Dml.DELETE, List.of(wholeFiles)).deleted()).isEqualTo(6);
  }

  @Test
  void mergeCountsWhatSparkCounted() {
    Map<String, String> summary =
        Map.of(
            "added-records", "100",
            "spark.merge-into.num-target-rows-copied", "94",
            "spark.merge-into.num-target-rows-updated", "1",
            "spark.merge-into.num-target-rows-deleted", "2",
            "spark.merge-into.num-target-rows-inserted", "3");

    RowCounts counts = RowCounts.of(Dml.MERGE, List.of(summary));

    assertThat(counts).isEqualTo(new RowCounts(1, 2, 3));
    assertThat(counts.affected()).isEqualTo(6);
  }

  @Test
  void mergeThatOnlyInsertsIsAnAppend() {
    assertThat(RowCounts.of(Dml.MERGE, List.of(Map.of("added-records", "4"))))
        .isEqualTo(new RowCounts(0, 0, 4));
  }

  @Test
  void noSnapshotIsNoRow() {
    assertThat(RowCounts.of(Dml.UPDATE, List.of())).isEqualTo(RowCounts.NONE);
  }
}
