package io.txns.iceberg.log;

import io.txns.iceberg.TxnException;
import java.util.Locale;

/** What a record of the commit table is: the value of {@code txns.kind}. */
public enum EntryKind {
  COMMIT,
  REGISTER,
  FORGET,
  ADOPT,
  QUARANTINE,
  REPAIR,
  ADVANCE,
  TIDY,
  OFF,
  ON,
  ABORT,
  SETTINGS;

  /** Whether its changes move {@code main} of their tables, in its own swap or after it. */
  public boolean isApplied() {
    return this == COMMIT || this == FORGET || this == ADOPT || this == REPAIR;
  }

  /** The stored spelling. */
  public String stored() {
    return name().toLowerCase(Locale.ROOT);
  }

  static EntryKind parse(String stored) {
    for (EntryKind kind : values()) {
      if (kind.stored().equals(stored)) {
        return kind;
      }
    }
    throw TxnException.corruptLog(
        String.format("unknown kind of entry, upgrade this program; txns.kind=`%s`", stored));
  }
}
