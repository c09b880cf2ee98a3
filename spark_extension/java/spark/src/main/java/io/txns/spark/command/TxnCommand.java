package io.txns.spark.command;

import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.StatusRow;
import io.txns.spark.session.TxnSession;
import io.txns.spark.sql.TxnStatement;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;

/** Runs one {@link TxnStatement} on the session's transaction and returns its row. */
final class TxnCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private final transient TxnStatement statement;

  TxnCommand(TxnStatement statement) {
    super(StatusRow.SCHEMA);
    this.statement = statement;
  }

  @Override
  protected List<Row> rows(SparkSession session) {
    StatusRow status = new TxnStatementRunner(session).run(statement);
    return List.of(status.toRow(TxnSession.of(session).open().isPresent()));
  }

  @Override
  protected Object argument() {
    return statement;
  }
}
