package io.txns.iceberg.log;

import io.txns.iceberg.TxnException;
import java.util.Locale;

/** What a change does to its table: all that table-level conflict checks need to know. */
public enum Operation {
  APPEND,
  OVERWRITE,
  DELETE,
  REPLACE,
  CREATE,
  ALTER,
  DROP;

  /** The stored spelling. */
  String stored() {
    return name().toLowerCase(Locale.ROOT);
  }

  static Operation parse(String stored) {
    for (Operation operation : values()) {
      if (operation.stored().equals(stored)) {
        return operation;
      }
    }
    throw TxnException.corruptLog(
        String.format("unknown operation, upgrade this program; operation=`%s`", stored));
  }
}
