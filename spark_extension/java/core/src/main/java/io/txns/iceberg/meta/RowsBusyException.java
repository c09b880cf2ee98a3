package io.txns.iceberg.meta;

import org.apache.iceberg.exceptions.CommitFailedException;

/** Others have held rows for too long: nothing was done. */
public final class RowsBusyException extends CommitFailedException {
  RowsBusyException(Throwable cause, String message, Object... args) {
    super(cause, message, args);
  }
}
