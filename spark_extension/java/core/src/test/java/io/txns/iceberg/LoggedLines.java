package io.txns.iceberg;

import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.concurrent.CopyOnWriteArrayList;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Configurator;
import org.apache.logging.log4j.core.config.Property;
import org.junit.jupiter.api.extension.AfterEachCallback;
import org.junit.jupiter.api.extension.BeforeEachCallback;
import org.junit.jupiter.api.extension.ExtensionContext;

/** What a test has logged below the protocol's name, as an appender of a user's gets it. */
public final class LoggedLines implements BeforeEachCallback, AfterEachCallback {
  private static final String NAME = "io.txns.iceberg";

  /**
   * A line.
   *
   * @param context its MDC
   */
  public record Line(
      Level level, String text, Map<String, String> context, String thrown, String method) {}

  private final List<Line> lines = new CopyOnWriteArrayList<>();
  private final Logger logger = (Logger) LogManager.getLogger(NAME);
  private final AbstractAppender appender =
      new AbstractAppender("lines", null, null, true, Property.EMPTY_ARRAY) {
        @Override
        public void append(LogEvent event) {
          lines.add(
              new Line(
                  event.getLevel(),
                  event.getMessage().getFormattedMessage(),
                  new TreeMap<>(event.getContextData().toMap()),
                  String.valueOf(event.getThrown()),
                  event.getSource().getMethodName()));
        }
      };

  @Override
  public void beforeEach(ExtensionContext context) {
    Configurator.setLevel(NAME, Level.DEBUG);
    appender.start();
    logger.addAppender(appender);
  }

  @Override
  public void afterEach(ExtensionContext context) {
    logger.removeAppender(appender);
    Configurator.setLevel(NAME, Level.WARN);
  }

  public void clear() {
    lines.clear();
  }

  /** All of a level and of those above it. */
  public List<Line> of(Level least) {
    return lines.stream().filter(line -> line.level().isMoreSpecificThan(least)).toList();
  }

  /** Those about a transaction, with their levels and without times, which differ. */
  public List<String> about(String txnId, Level least) {
    return of(least).stream()
        .filter(line -> txnId.equals(line.context().get("txn")))
        .map(line -> line.level() + " " + line.text().replaceFirst(" ms=\\d+$", ""))
        .toList();
  }
}
