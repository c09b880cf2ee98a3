package io.txns.iceberg.meta;

import org.apache.iceberg.exceptions.CommitFailedException;

/** Rows are not to be had, as others hold them, or the connection was lost: nothing was done. */
public final class RowsBusyException extends CommitFailedException {
  public RowsBusyException(Throwable cause, String message, Object... args) {
    super(cause, message, args);
  }
}
