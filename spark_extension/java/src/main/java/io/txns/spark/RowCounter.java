package io.txns.spark;

import java.util.HashMap;
import java.util.Map;
import java.util.TreeMap;
import org.apache.spark.TaskContext;
import org.apache.spark.util.AccumulatorV2;

/**
 * Counts rows in the tasks of a job, exactly. Several stages may go over the same partitions: one
 * samples them for a range partitioning, one makes again what was lost with an executor. Of a
 * partition the newest stage counts, and there the last attempt.
 */
public final class RowCounter extends AccumulatorV2<Long, Long> {
  private static final long serialVersionUID = 1L;
  private static final int NO_TASK = -1;

  // In a task: what it has counted.
  private int stage = NO_TASK;
  private int partition = NO_TASK;
  private long count;

  // On the driver: stage to partition to count.
  private TreeMap<Integer, Map<Integer, Long>> stages = new TreeMap<>();

  /** Count one row of the task that this thread runs. */
  public void increment() {
    if (stage == NO_TASK) {
      TaskContext task = TaskContext.get();
      countIn(task.stageId(), task.partitionId());
    }
    count++;
  }

  /** What comes is counted in this task. */
  void countIn(int ofStage, int ofPartition) {
    stage = ofStage;
    partition = ofPartition;
  }

  @Override
  public boolean isZero() {
    return stage == NO_TASK && stages.isEmpty();
  }

  @Override
  public AccumulatorV2<Long, Long> copy() {
    RowCounter copy = new RowCounter();
    copy.stage = stage;
    copy.partition = partition;
    copy.count = count;
    stages.forEach((key, partitions) -> copy.stages.put(key, new HashMap<>(partitions)));
    return copy;
  }

  @Override
  public void reset() {
    stage = NO_TASK;
    partition = NO_TASK;
    count = 0;
    stages = new TreeMap<>();
  }

  @Override
  public void add(Long rows) {
    throw new UnsupportedOperationException("rows are counted one by one");
  }

  @Override
  public void merge(AccumulatorV2<Long, Long> other) {
    RowCounter task = (RowCounter) other;
    task.stages.forEach(
        (key, partitions) ->
            stages.computeIfAbsent(key, unused -> new HashMap<>()).putAll(partitions));
    if (task.stage != NO_TASK) {
      stages.computeIfAbsent(task.stage, unused -> new HashMap<>()).put(task.partition, task.count);
    }
  }

  @Override
  public Long value() {
    if (stages.isEmpty()) {
      return count;
    }
    Map<Integer, Long> newest = new HashMap<>();
    stages.values().forEach(newest::putAll);
    return newest.values().stream().mapToLong(Long::longValue).sum();
  }
}
