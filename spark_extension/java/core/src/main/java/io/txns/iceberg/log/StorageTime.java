package io.txns.iceberg.log;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.meta.Cleaning;
import io.txns.iceberg.meta.LocalWrites;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.OptionalLong;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.FileInfo;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SupportsPrefixOperations;

/**
 * What time it is for those who destroy something by its age: the storage is asked, not the clock,
 * which would take for old what somebody has just made (docs/spec.md 10).
 */
public record StorageTime(CommitLog log, TxnClock clock) {
  private static final TxnLogger LOG = TxnLogger.of(StorageTime.class);

  /** By so much a clock may differ from the storage's. */
  private static final long SKEW_MS_MAX = 60_000;

  /** By so much an upper may lie ahead of the storage: skew, and {@code advance} adds as much. */
  private static final long AHEAD_MS_MAX = 2 * SKEW_MS_MAX;

  private static final byte[] QUESTION = "what time is it\n".getBytes(StandardCharsets.UTF_8);

  /**
   * The time in ms by which something may be destroyed, as of a head. Where the storage tells no
   * time, the upper: no clock counts then.
   *
   * @throws TxnException 58000, this process's clock is wrong
   */
  public long checkedNowMs(Head head) {
    long beforeMs = clock.nowMs();
    OptionalLong written = writtenMs(log.io(), head.metadata().location());
    long nowMs = clock.nowMs();
    if (written.isEmpty()) {
      return head.upper();
    }
    long writtenMs = written.getAsLong();
    // However long the storage has taken, its time lay between the two.
    long skewMs = Math.max(beforeMs - writtenMs, 0) + Math.min(nowMs - writtenMs, 0);
    if (Math.abs(skewMs) > SKEW_MS_MAX) {
      throw TxnException.invalidUsage(
          "58000",
          String.format(
              "the clock of this host is wrong, so nothing is removed: set it right, as by NTP, and"
                  + " run it again; it is %d s %s the storage; now=`%d` storage=`%d`",
              Math.round(Math.abs(skewMs) / 1000.0),
              skewMs > 0 ? "ahead of" : "behind",
              nowMs,
              writtenMs));
    }
    return Math.min(Math.max(nowMs, head.upper()), writtenMs + AHEAD_MS_MAX);
  }

  /** Write a file, ask when the storage has it from, and remove it; empty: it cannot say. */
  private OptionalLong writtenMs(FileIO io, String location) {
    if (!(io instanceof SupportsPrefixOperations files)) {
      return OptionalLong.empty();
    }
    String folder = location.replaceAll("/+$", "") + "/metadata/";
    String path = folder + "txns-clock-" + log.newId() + ".txt";
    try (PositionOutputStream stream = LocalWrites.through(io).newOutputFile(path).create()) {
      stream.write(QUESTION);
    } catch (IOException e) {
      throw new UncheckedIOException("cannot ask the storage for the time", e);
    }
    try {
      for (FileInfo one : files.listPrefix(path)) {
        return OptionalLong.of(one.createdAtMillis());
      }
    } catch (RuntimeException e) {
      LOG.warn("the storage does not tell when a file was written", e);
    } finally {
      Cleaning.of(path, () -> io.deleteFile(path));
    }
    return OptionalLong.empty();
  }
}
