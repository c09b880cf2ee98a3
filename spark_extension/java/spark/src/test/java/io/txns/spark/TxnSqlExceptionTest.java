package io.txns.spark;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnException;
import java.io.IOException;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.CommitStateUnknownException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.spark.ErrorMessageFormat;
import org.apache.spark.SparkThrowable;
import org.apache.spark.SparkThrowableHelper;
import org.junit.jupiter.api.Test;

/** What an error says that Iceberg raises in a statement outside a transaction. */
class TxnSqlExceptionTest {

  @Test
  void aLostRaceIsToBeRunAgain() {
    for (Throwable lost :
        new Throwable[] {
          new CommitFailedException("stale table metadata"),
          new ValidationException("Found conflicting files that can contain rows"),
        }) {
      assertThat(translated(lost, ErrorKind.CONFLICT))
          .contains("lost a race, run it again")
          .contains(lost.getMessage());
    }
  }

  @Test
  void anUnknownOutcomeIsNoLostRace() {
    Throwable unknown = new CommitStateUnknownException(new IOException("connection reset"));
    assertThat(translated(unknown, ErrorKind.COMMIT_STATE_UNKNOWN))
        .contains("not known whether the statement committed", "connection reset")
        .doesNotContain("race");
  }

  @Test
  void whatTheProtocolSaidStandsAlone() {
    TxnException inside = TxnException.quarantined(TableIdentifier.of("db", "t"), "altered");
    Throwable outside = new CommitFailedException(inside, "Cannot commit: %s", inside.getMessage());
    assertThat(translated(outside, ErrorKind.QUARANTINED))
        .contains("altered; readers stay")
        .doesNotContain("race", "Cannot commit");
  }

  /** Where Spark is told to send a condition and its parameters, and no text. */
  @Test
  void whatToDoIsAlsoInTheMinimalFormat() {
    TxnSqlException refused = TxnSqlException.of(TxnException.unsupported("run it after COMMIT"));
    assertThat(SparkThrowableHelper.getMessage(refused, ErrorMessageFormat.MINIMAL()))
        .contains("\"0A000\"", "run it after COMMIT");
  }

  @Test
  void otherErrorsStayAsTheyAre() {
    Throwable other = new ValidationException("Cannot find field nope");
    assertThat(TxnSqlException.translated(other)).isSameAs(other);
  }

  private static String translated(Throwable e, ErrorKind expected) {
    Throwable translated = TxnSqlException.translated(new RuntimeException("job aborted", e));
    assertThat(translated).isInstanceOf(TxnSqlException.class);
    assertThat(((SparkThrowable) translated).getSqlState()).isEqualTo(expected.sqlState());
    return translated.getMessage();
  }
}
