package io.txns.iceberg.meta;

import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.exceptions.ValidationException;

/** What a catalog says of a request that it will not do. */
public final class Refusal {
  private Refusal() {}

  /**
   * Whether a catalog says of a request that it will not do it. A client that repeats requests by
   * itself may have landed it before.
   */
  public static boolean is(RuntimeException e) {
    return isMalformed(e) || e instanceof ForbiddenException || e instanceof NotAuthorizedException;
  }

  /** Whether a catalog calls a request malformed, as some do where it stood on an older state. */
  public static boolean isMalformed(RuntimeException e) {
    return e instanceof BadRequestException
        || e instanceof ValidationException
        || e instanceof IllegalArgumentException;
  }
}
