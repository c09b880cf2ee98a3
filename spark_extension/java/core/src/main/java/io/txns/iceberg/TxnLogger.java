package io.txns.iceberg;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.slf4j.event.Level;
import org.slf4j.helpers.FormattingTuple;
import org.slf4j.helpers.MessageFormatter;
import org.slf4j.spi.LocationAwareLogger;

/**
 * A logger whose lines hold no secret, and say what they are about ({@link LogFields}), as text and
 * in the MDC. Every one of ours is one.
 *
 * <p>Arguments are SLF4J's: a failure comes last, and is written with its stack.
 */
public final class TxnLogger {
  private static final String SELF = TxnLogger.class.getName();

  private final Logger to;

  private TxnLogger(Logger to) {
    this.to = to;
  }

  /** A class's logger. */
  public static TxnLogger of(Class<?> type) {
    return new TxnLogger(LoggerFactory.getLogger(type));
  }

  /** Tell what people have to know. */
  public void warn(String message, Object... arguments) {
    warn(LogFields.NONE, message, arguments);
  }

  /** The same, with what it is about. */
  public void warn(LogFields about, String message, Object... arguments) {
    if (to.isWarnEnabled()) {
      write(Level.WARN, about, message, arguments);
    }
  }

  /** Tell what is not the ordinary case, and no reason to worry. */
  public void info(LogFields about, String message, Object... arguments) {
    if (to.isInfoEnabled()) {
      write(Level.INFO, about, message, arguments);
    }
  }

  /** Tell what goes on. */
  public void debug(String message, Object... arguments) {
    debug(LogFields.NONE, message, arguments);
  }

  /** The same, with what it is about. */
  public void debug(LogFields about, String message, Object... arguments) {
    if (to.isDebugEnabled()) {
      write(Level.DEBUG, about, message, arguments);
    }
  }

  private void write(Level level, LogFields about, String message, Object... arguments) {
    FormattingTuple written = MessageFormatter.arrayFormat(message, arguments);
    Throwable failure =
        written.getThrowable() == null ? null : LoggedFailure.of(written.getThrowable());
    LogFields before = about.begin();
    try {
      write(level, Messages.of(written.getMessage()) + LogFields.here(), failure);
    } finally {
      before.putBack();
    }
  }

  private void write(Level level, String line, Throwable failure) {
    if (to instanceof LocationAwareLogger aware) {
      aware.log(null, SELF, level.toInt(), line, null, failure);
      return;
    }
    switch (level) {
      case WARN -> to.warn(line, failure);
      case INFO -> to.info(line, failure);
      default -> to.debug(line, failure);
    }
  }
}
