package io.txns.iceberg.simulation;

import java.util.concurrent.Callable;
import java.util.concurrent.Future;
import java.util.concurrent.FutureTask;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Runs what is submitted at once, in the caller's thread: a simulated process has no others.
 *
 * <p>Iceberg casts its pools to the class of thread pools, so it is one; its threads never start.
 */
final class ImmediateExecutor extends ScheduledThreadPoolExecutor {
  ImmediateExecutor() {
    super(0);
  }

  @Override
  public void execute(Runnable task) {
    task.run();
    SimulatedThread.current().unwindIfDead(); // a future keeps what its task throws
  }

  @Override
  public Future<?> submit(Runnable task) {
    return submit(task, null);
  }

  @Override
  public <T> Future<T> submit(Runnable task, T result) {
    FutureTask<T> future = new FutureTask<>(task, result);
    execute(future);
    return future;
  }

  @Override
  public <T> Future<T> submit(Callable<T> task) {
    FutureTask<T> future = new FutureTask<>(task);
    execute(future);
    return future;
  }

  @Override
  public ScheduledFuture<?> schedule(Runnable task, long delay, TimeUnit unit) {
    throw new UnsupportedOperationException("nothing happens later in the simulation");
  }

  @Override
  public <V> ScheduledFuture<V> schedule(Callable<V> task, long delay, TimeUnit unit) {
    throw new UnsupportedOperationException("nothing happens later in the simulation");
  }
}
