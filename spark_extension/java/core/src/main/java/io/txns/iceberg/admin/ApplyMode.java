package io.txns.iceberg.admin;

import io.txns.iceberg.LogSettings;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.catalog.Services;
import io.txns.iceberg.log.Head;
import java.util.Locale;

/**
 * How what this process commits comes to its tables, and why that way.
 *
 * @param apply by the swap, by the committer, or by the next writer
 * @param why for people
 */
public record ApplyMode(TxnConfig.Apply apply, String why) {

  /** The way by which a process of these parts goes, under the settings of a head. */
  public static ApplyMode of(Services services, Head head) {
    TxnConfig config = services.config().get();
    LogSettings log = head.state().settings();
    if (config.within(log).apply() == TxnConfig.Apply.NEXT) {
      return new ApplyMode(
          TxnConfig.Apply.NEXT, "the log leaves it to the next writer: `txns settings`");
    }
    boolean moves = config.movesTables(log);
    if (moves && services.rows().get().isPresent()) {
      return new ApplyMode(
          TxnConfig.Apply.ATOMIC,
          "the tables are rows of one database, which moves several at once");
    }
    if (moves) {
      return inline("the catalog cannot move several tables at once");
    }
    return config.apply() == TxnConfig.Apply.NEXT
        ? inline("the log is set to inline, and not to leave it to others")
        : inline("txns.apply=`inline` was given");
  }

  private static ApplyMode inline(String why) {
    return new ApplyMode(TxnConfig.Apply.INLINE, why);
  }

  @Override
  public String toString() {
    return apply.name().toLowerCase(Locale.ROOT) + ": " + why;
  }
}
