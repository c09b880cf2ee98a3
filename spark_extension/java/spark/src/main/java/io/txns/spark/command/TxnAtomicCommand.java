package io.txns.spark.command;

import io.txns.spark.compat.DelegatingParser;
import io.txns.spark.compat.LeafCommand;
import io.txns.spark.session.StatusRow;
import io.txns.spark.session.TxnSession;
import java.util.List;
import org.apache.spark.sql.Row;
import org.apache.spark.sql.classic.SparkSession;

/**
 * {@code BEGIN ATOMIC ... END}: a SQL script as one transaction, in one call. An error that the
 * script does not handle rolls it back; a lost race runs it again.
 */
final class TxnAtomicCommand extends LeafCommand {
  private static final long serialVersionUID = 1L;

  private final String script;
  private final transient DelegatingParser.Parse parse;

  TxnAtomicCommand(String script, DelegatingParser.Parse parse) {
    super(StatusRow.SCHEMA);
    this.script = script;
    this.parse = parse;
  }

  @Override
  protected List<Row> rows(SparkSession session) throws Exception {
    StatusRow status = new TxnStatementRunner(session).atomic(() -> parse.of(script));
    return List.of(status.toRow(TxnSession.of(session).open().isPresent()));
  }

  @Override
  protected Object argument() {
    return script;
  }
}
