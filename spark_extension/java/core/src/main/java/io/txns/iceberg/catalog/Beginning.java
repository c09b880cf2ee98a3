package io.txns.iceberg.catalog;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.Head;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicBoolean;

/** How transactions begin: at which moment, at which level, and whether they may. */
public final class Beginning {
  private static final long BASIS_POLL_MS = 50;

  private static final TxnLogger LOG = TxnLogger.of(Beginning.class);

  private final Services services;
  private final AtomicBoolean warned = new AtomicBoolean();

  public Beginning(Services services) {
    this.services = services;
  }

  /**
   * Begin what lies between BEGIN and COMMIT; with the id of one that has committed, it is that.
   *
   * @throws TxnException 25000, 0A000 as {@link TxnHandle#begin(BeginOptions)} says
   */
  public Transaction explicit(BeginOptions options, String id) {
    Head head = services.log().loadIfEver();
    services.loop().hear(head);
    warnOfLaxer(head);
    if (options.basis() != null) {
      head = await(options.basis(), options.basisTimeoutMs());
    }
    long readTs = options.asOf() == null ? head.upper() : options.asOf();
    if (readTs < 0) {
      throw TxnException.invalidUsage(
          "25000",
          String.format("the log has no time before 1970, read at 0 or above; as_of=`%d`", readTs));
    }
    if (readTs > head.upper()) {
      throw TxnException.invalidUsage(
          "25000",
          String.format(
              "nothing has committed at that time yet, read at the upper or below; as_of=`%d`"
                  + " upper=`%d`",
              readTs, head.upper()));
    }
    boolean fresh = options.id() == null;
    long nowMs = clock().nowMs();
    boolean byFile = config().conflicts() == TxnConfig.Conflicts.FILE;
    Begun begun =
        new Begun(
            id,
            fresh,
            isolation(options),
            byFile,
            options.readOnly(),
            true,
            options.toldEarly(),
            nowMs);
    Transaction transaction = transaction(head, readTs, begun);
    if (!fresh) {
      long sinceTs = config().idsSinceTs(head.state().settings(), head.upper(), nowMs);
      Optional<Entry> known = services.loop().find(head, id, sinceTs);
      if (known.isPresent()) {
        services.committer().metrics().count(TxnMetrics.Count.STARTED, 1);
        return transaction.alreadyCommitted(services.committer().committed(known.get()));
      }
    }
    if (head.state().off()) {
      throw TxnException.off();
    }
    services.committer().metrics().count(TxnMetrics.Count.STARTED, 1);
    return transaction;
  }

  /** Say once which options do not count. */
  private void warnOfLaxer(Head head) {
    List<String> laxer = config().laxerThan(head.state().settings());
    if (!laxer.isEmpty() && warned.compareAndSet(false, true)) {
      LOG.warn(
          "options do not count, since the log is stricter (system.settings): {}",
          String.join("; ", laxer));
    }
  }

  private Transaction transaction(Head head, long readTs, Begun begun) {
    return new Transaction(
        services.tables(),
        services.log(),
        services.checks(),
        services.loop(),
        services.committer(),
        clock(),
        head,
        readTs,
        begun);
  }

  /** Strict serializability reads at the upper: an explicit timestamp is a level below it. */
  private Isolation isolation(BeginOptions options) {
    boolean strict = options.isolation() == Isolation.STRICT_SERIALIZABLE;
    if (options.asOf() != null && strict) {
      throw TxnException.invalidUsage(
          "25000",
          "STRICT SERIALIZABLE reads at the newest timestamp: leave out AS OF, or use ISOLATION"
              + " LEVEL SERIALIZABLE");
    }
    if (options.isolation() != null) {
      return options.isolation();
    }
    return options.asOf() != null && config().isolation() == Isolation.STRICT_SERIALIZABLE
        ? Isolation.SERIALIZABLE
        : config().isolation();
  }

  /** Whether what single statements read is validated, as options may ask for. */
  public boolean validatesStatements() {
    return config().autocommitIsolation() != null;
  }

  /** Begin what stands for a single statement. */
  public Transaction statement(Head head, long readTs) {
    warnOfLaxer(head);
    Isolation isolation =
        validatesStatements() ? config().autocommitIsolation() : Isolation.SNAPSHOT;
    Begun begun =
        new Begun(clock().newTxnId(), true, isolation, false, false, false, false, clock().nowMs());
    return transaction(head, readTs, begun);
  }

  private Head await(long basis, long timeoutMs) {
    long beganMs = clock().elapsedMs();
    Head head = services.log().load();
    while (head.upper() < basis) {
      if (clock().elapsedMs() - beganMs >= timeoutMs) {
        throw TxnException.invalidUsage(
            "25000",
            String.format(
                "the basis was not reached in time: wait longer, or take the commit_ts of what has"
                    + " committed in this log; basis=`%d` upper=`%d` timeout_ms=`%d`",
                basis, head.upper(), timeoutMs));
      }
      clock().backOff(BASIS_POLL_MS);
      head = services.log().load();
    }
    return head;
  }

  private TxnClock clock() {
    return services.clock();
  }

  private TxnConfig config() {
    return services.config().get();
  }
}
