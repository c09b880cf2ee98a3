package io.txns.spark;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Messages;
import io.txns.iceberg.TxnException;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Callable;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.spark.QueryContext;
import org.apache.spark.sql.AnalysisException;
import org.apache.spark.sql.catalyst.trees.Origin;
import scala.Option;
import scala.Some;
import scala.jdk.javaapi.CollectionConverters;

/**
 * A {@link TxnException} as Spark carries it to every client: condition, SQLSTATE and parameters
 * arrive in PySpark, Spark Connect and JDBC, which only holds for an {@link AnalysisException}.
 */
public final class TxnSqlException extends AnalysisException {
  private static final long serialVersionUID = 1L;

  /** Parameter: what happened and what to do. All that is left of it in Spark's MINIMAL format. */
  private static final String MESSAGE = "message";

  private static final int MAX_DEPTH = 20;

  /** What Iceberg's validation says when others have changed what a statement rewrites. */
  private static final String ICEBERG_CONFLICT =
      "(?s)(Found (new )?conflicting|Found concurrently|Missing required files|Cannot commit, ).*";

  private final String sqlState;

  private TxnSqlException(
      String message,
      String condition,
      String sqlState,
      Map<String, String> parameters,
      Throwable cause) {
    super(
        "[" + condition + "] " + message + " SQLSTATE: " + sqlState,
        Option.<Object>empty(),
        Option.<Object>empty(),
        Option.apply(cause),
        Some.apply(condition),
        scala.collection.immutable.Map.from(
            CollectionConverters.asScala(withMessage(parameters, message))),
        new QueryContext[0]);
    this.sqlState = sqlState;
  }

  public static TxnSqlException of(TxnException e) {
    return new TxnSqlException(e.getMessage(), e.condition(), e.sqlState(), e.parameters(), e);
  }

  private static Map<String, String> withMessage(Map<String, String> parameters, String message) {
    Map<String, String> all = new HashMap<>(parameters);
    all.put(MESSAGE, message);
    return all;
  }

  @Override
  public String getSqlState() {
    return sqlState;
  }

  /** Keeps the type: the default copies into a plain AnalysisException without a SQLSTATE. */
  @Override
  public AnalysisException withPosition(Origin origin) {
    return this;
  }

  /** Runs {@code body}; a {@link TxnException}, also as a cause, leaves it translated. */
  public static <T> T translating(Callable<T> body) {
    try {
      return body.call();
    } catch (Throwable e) {
      throw TxnSqlException.<RuntimeException>sneaky(translated(e));
    }
  }

  /** {@code e}, or what an error of the protocol or of Iceberg's commit in its causes becomes. */
  public static Throwable translated(Throwable e) {
    TxnSqlException ofIceberg = null;
    Throwable cause = e;
    for (int depth = 0; cause != null && depth < MAX_DEPTH; depth++) {
      if (cause instanceof TxnSqlException) {
        return cause;
      }
      if (cause instanceof TxnException txnException) {
        return with(of(txnException), e);
      }
      if (ofIceberg == null) {
        ofIceberg = ofIceberg(cause);
      }
      cause = cause.getCause();
    }
    return ofIceberg == null ? e : with(ofIceberg, e);
  }

  /** What Iceberg itself says of a statement's commit outside a transaction; else null. */
  private static TxnSqlException ofIceberg(Throwable e) {
    if (e instanceof CommitStateUnknownException) {
      String what = "it is not known whether the statement committed, look before running it again";
      return of(ErrorKind.COMMIT_STATE_UNKNOWN, what, e);
    }
    boolean lostRace =
        e instanceof CommitFailedException
            || e instanceof ValidationException
                && String.valueOf(e.getMessage()).matches(ICEBERG_CONFLICT);
    return lostRace ? of(ErrorKind.CONFLICT, "the statement lost a race, run it again", e) : null;
  }

  private static TxnSqlException of(ErrorKind kind, String what, Throwable e) {
    String message = Messages.of(what + ": " + e.getMessage());
    return new TxnSqlException(message, kind.condition(), kind.sqlState(), Map.of(), e);
  }

  private static TxnSqlException with(TxnSqlException translated, Throwable original) {
    if (translated.getCause() != original) {
      translated.addSuppressed(original);
    }
    return translated;
  }

  /** Throws a checked exception where Scala's callers expect it and Java's signatures do not. */
  @SuppressWarnings("unchecked")
  public static <E extends Throwable> E sneaky(Throwable e) throws E {
    throw (E) e;
  }
}
