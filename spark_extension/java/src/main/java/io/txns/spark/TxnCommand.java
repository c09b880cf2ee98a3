package io.txns.spark;

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
  List<Row> rows(SparkSession session) {
    StatusRow status = new StatementRunner(session).run(statement);
    return List.of(status.toRow(TxnSession.of(session).open().isPresent()));
  }

  @Override
  Object argument() {
    return statement;
  }
}
