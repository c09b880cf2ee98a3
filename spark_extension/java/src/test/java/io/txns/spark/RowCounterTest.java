package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class RowCounterTest {

  private final RowCounter sum = new RowCounter();

  private void task(int stage, int partition, int rows) {
    RowCounter task = new RowCounter();
    task.countIn(stage, partition);
    for (int row = 0; row < rows; row++) {
      task.increment();
    }
    sum.merge(task);
  }

  @Test
  void aPartitionThatWasSampledBeforeIsCountedOnce() {
    task(1, 0, 5);
    task(1, 1, 2);
    task(2, 0, 5);
    task(2, 1, 2);
    assertThat(sum.value()).isEqualTo(7);
  }

  /** With an executor the rows of partition 1 were lost: it alone is made again. */
  @Test
  void aPartitionThatWasMadeAgainStandsBesideTheOthers() {
    task(3, 0, 5);
    task(3, 1, 2);
    task(3, 2, 0);
    task(5, 1, 2);
    assertThat(sum.value()).isEqualTo(7);
  }

  @Test
  void theLastAttemptOfATaskCounts() {
    task(3, 0, 5);
    task(3, 0, 4);
    assertThat(sum.value()).isEqualTo(4);
  }
}
