package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.TxnException;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.io.UncheckedIOException;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotAuthorizedException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.RESTException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.jdbc.UncheckedSQLException;

/** What a call has thrown, in the words of the protocol. */
final class Failures {
  private Failures() {}

  static ObjectNode describe(Throwable e) {
    String type = type(e);
    ObjectNode error = Json.object().put("type", type);
    error.put("message", type.equals("Crash") ? trace(e) : e.getMessage());
    if (e instanceof TxnException known) {
      error.put("sqlstate", known.sqlState());
      error.put("table", known.parameters().get(TxnException.TABLE));
      String leastTs = known.parameters().get(TxnException.LEAST_TS);
      if (leastTs != null) {
        error.put("least_ts", Long.parseLong(leastTs));
      }
    }
    return error;
  }

  private static String type(Throwable e) {
    return e instanceof TxnException known ? type(known) : typeOfIceberg(e);
  }

  private static String type(TxnException e) {
    return switch (e.kind()) {
      case CONFLICT -> "Conflict";
      case COMMIT_STATE_UNKNOWN -> "CommitStateUnknown";
      case INVALID_USAGE -> "InvalidUsage";
      case QUARANTINED, FOREIGN_WRITE -> "Quarantined";
      case UNSUPPORTED -> "Unsupported";
      case CORRUPT_LOG -> "CorruptLog";
    };
  }

  /** Exact classes first: what Iceberg throws for HTTP's codes has a parent in common. */
  private static String typeOfIceberg(Throwable e) {
    if (e instanceof NoSuchTableException) {
      return "NoSuchTable";
    } else if (e instanceof NoSuchNamespaceException) {
      return "NoSuchNamespace";
    } else if (e instanceof AlreadyExistsException) {
      return "AlreadyExists";
    } else if (e instanceof CommitFailedException) {
      return "CommitFailed";
    } else if (e instanceof CommitStateUnknownException) {
      return "IcebergCommitStateUnknown";
    } else if (e instanceof ValidationException) {
      return "Validation";
    } else if (e instanceof NotFoundException) {
      return "NotFound";
    } else if (e instanceof BadRequestException) {
      return "BadRequest";
    } else if (e instanceof NotAuthorizedException) {
      return "Unauthorized";
    } else if (e instanceof ForbiddenException) {
      return "Forbidden";
    }
    boolean isIo =
        e instanceof UncheckedIOException
            || e instanceof UncheckedSQLException
            || e instanceof RESTException;
    return isIo ? "IO" : "Crash";
  }

  private static String trace(Throwable e) {
    StringWriter trace = new StringWriter();
    e.printStackTrace(new PrintWriter(trace));
    return trace.toString();
  }
}
