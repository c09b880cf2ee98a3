package io.txns.iceberg;

import io.txns.iceberg.TxnMetrics.Phase;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import org.apache.iceberg.catalog.TableIdentifier;
import org.slf4j.MDC;

/**
 * What lines of a log are about: a transaction's id, a table's name, a phase, and how long
 * something took. The names are those of docs/operations.md, the same in Python.
 *
 * <p>They stand in the MDC, which Spark's own structured logging writes as {@code context}: so
 * lines of Iceberg and of a catalog's client have them, too. SLF4J's key-value pairs would end in
 * the same place, and engines with SLF4J 1.7 do not know them.
 */
public final class LogFields {
  /** Nothing. */
  public static final LogFields NONE = new LogFields(Map.of());

  private static final String TXN = "txn";
  private static final String TABLE = "table";
  private static final String PHASE = "phase";
  private static final String MS = "ms";

  /** In the order in which they are written. */
  private static final List<String> NAMES = List.of(TXN, TABLE, PHASE, MS);

  private final Map<String, String> values;

  private LogFields(Map<String, String> values) {
    this.values = values;
  }

  /** What a line is about that is written here: what {@link #during} says of it. */
  public static LogFields here() {
    LogFields here = NONE;
    for (String name : NAMES) {
      String value = MDC.get(name);
      here = value == null ? here : here.with(name, value);
    }
    return here;
  }

  /** About a transaction. */
  public static LogFields of(String txnId) {
    return NONE.with(TXN, txnId);
  }

  /** About a table. */
  public static LogFields of(TableIdentifier table) {
    return NONE.with(TABLE, TableNames.text(table));
  }

  /** About a table, by a name that is one text already. */
  public static LogFields named(String table) {
    return NONE.with(TABLE, table);
  }

  /** About a phase. */
  public static LogFields of(Phase phase) {
    return NONE.with(PHASE, phase.word());
  }

  /** And a phase. */
  public LogFields in(Phase phase) {
    return with(PHASE, phase.word());
  }

  /** And how long it took, in ms. */
  public LogFields took(long ms) {
    return with(MS, Long.toString(ms));
  }

  private LogFields with(String name, String value) {
    Map<String, String> more = new LinkedHashMap<>(values);
    more.put(name, Messages.printable(value));
    return new LogFields(more);
  }

  /** Run some work, every line of which is about this; what else it was about before, it stays. */
  public <T> T during(Supplier<T> work) {
    LogFields before = begin();
    try {
      return work.get();
    } finally {
      before.putBack();
    }
  }

  /** The same of work that gives nothing. */
  public void during(Runnable work) {
    during(
        () -> {
          work.run();
          return null;
        });
  }

  /**
   * Run some work in a pool's thread, every line of which is about this and nothing else: some
   * loggers hand on to a thread what the work was about in which it was made.
   */
  public void alone(Runnable work) {
    Map<String, String> all = new LinkedHashMap<>();
    NAMES.forEach(name -> all.put(name, values.get(name)));
    new LogFields(all).during(work);
  }

  /** Put these into the MDC; give what stood there. */
  LogFields begin() {
    Map<String, String> before = new LinkedHashMap<>();
    values.forEach(
        (name, value) -> {
          before.put(name, MDC.get(name));
          set(name, value);
        });
    return new LogFields(before);
  }

  /** Put back what {@link #begin} has given. */
  void putBack() {
    values.forEach(LogFields::set);
  }

  private static void set(String name, String value) {
    if (value == null) {
      MDC.remove(name);
    } else {
      MDC.put(name, value);
    }
  }

  /** As a line ends with them: {@code name=value}, each behind a blank. */
  @Override
  public String toString() {
    StringBuilder text = new StringBuilder();
    for (String name : NAMES) {
      String value = values.get(name);
      if (value != null) {
        text.append(' ').append(name).append('=').append(Messages.field(value));
      }
    }
    return text.toString();
  }
}
