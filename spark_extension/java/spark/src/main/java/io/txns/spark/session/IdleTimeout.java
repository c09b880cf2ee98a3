package io.txns.spark.session;

import io.txns.iceberg.TxnException;
import java.lang.ref.WeakReference;
import java.util.Locale;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SQLExecution$;
import org.apache.spark.sql.internal.SQLConf;

/**
 * Undoes a transaction that nobody goes on with, so that its files do not wait for a session that
 * has been left open, or that its program has lost. A statement that runs, however long, is no
 * idleness. The timer only looks: it waits for nothing and undoes nothing itself.
 */
public final class IdleTimeout implements Runnable {

  /** Runtime option: after how many seconds without a statement; 0 means never. */
  static final String OPTION = "spark.sql.txns.idle-timeout-s";

  private static final long DEFAULT_S = 3600;
  private static final int LOOKS_PER_TIMEOUT = 4;
  private static final long MAX_LOOK_MS = 60_000;
  private static final ScheduledExecutorService TIMER =
      Executors.newSingleThreadScheduledExecutor(
          task -> {
            Thread thread = new Thread(task, "txns-idle-timeout");
            thread.setDaemon(true);
            return thread;
          });

  // Weak: waiting must not keep a session alive that nobody has any more.
  private final WeakReference<SparkSession> session;
  private final TxnSession state;
  // Weak, too: one that is over and waits for its last look holds the metadata of its tables.
  private final WeakReference<OpenTransaction> transaction;
  private final long timeoutMs;

  private IdleTimeout(
      SparkSession session, TxnSession state, OpenTransaction transaction, long timeoutMs) {
    this.session = new WeakReference<>(session);
    this.state = state;
    this.transaction = new WeakReference<>(transaction);
    this.timeoutMs = timeoutMs;
  }

  /** Watches a transaction that has begun, until it ends. */
  public static void watch(SparkSession session, TxnSession state, OpenTransaction transaction) {
    long timeoutMs = 1000 * seconds(session.sessionState().conf());
    new IdleTimeout(session, state, transaction, timeoutMs).again();
  }

  /**
   * The option's value.
   *
   * @throws TxnException 42000 when it is not a whole number
   */
  public static long seconds(SQLConf conf) {
    String value = conf.getConfString(OPTION, String.valueOf(DEFAULT_S)).trim();
    if (!value.matches("[0-9]{1,9}")) {
      throw TxnException.invalidUsage(
          "42000",
          String.format(
              "%s must be a whole number of seconds, 0 for never; value=`%s`", OPTION, value));
    }
    return Long.parseLong(value);
  }

  private void again() {
    long lookMs = timeoutMs == 0 ? MAX_LOOK_MS : timeoutMs / LOOKS_PER_TIMEOUT;
    TIMER.schedule(this, Math.max(1, Math.min(lookMs, MAX_LOOK_MS)), TimeUnit.MILLISECONDS);
  }

  @Override
  public void run() {
    SparkSession owner = session.get();
    OpenTransaction watched = transaction.get();
    if (watched == null || !state.isOpen(watched)) {
      return;
    }
    if (owner == null) {
      Background.UNDOING.soon(state::abandon);
      return;
    }
    if (state.writes().isAny() || isQuerying(owner)) {
      state.touch();
    }
    if (isIdle()) {
      Background.UNDOING.soon(() -> expire(watched));
    } else {
      again();
    }
  }

  private boolean isIdle() {
    return timeoutMs > 0 && state.idleMs() >= timeoutMs;
  }

  /** Unless a statement has come in the meantime. */
  private void expire(OpenTransaction watched) {
    if (!isIdle()) {
      again();
      return;
    }
    state.expire(
        watched,
        String.format(
            Locale.ROOT,
            "the transaction was rolled back because no statement has come for %d s; send"
                + " ROLLBACK and run it again from BEGIN (%s is the limit)",
            timeoutMs / 1000,
            OPTION));
  }

  private static boolean isQuerying(SparkSession session) {
    return SQLExecution$.MODULE$.executionIdToQueryExecution().values().stream()
        .anyMatch(query -> query.sparkSession() == session);
  }
}
