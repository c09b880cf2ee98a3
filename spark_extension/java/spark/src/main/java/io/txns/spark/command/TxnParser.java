package io.txns.spark.command;

import io.txns.iceberg.TxnException;
import io.txns.spark.TxnSqlException;
import io.txns.spark.compat.DelegatingParser;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.sql.DdlPlans;
import io.txns.spark.sql.ParsedDml;
import io.txns.spark.sql.ScriptStatements;
import io.txns.spark.sql.SqlTokens;
import io.txns.spark.sql.TxnStatement;
import io.txns.spark.sql.TxnStatementParser;
import io.txns.spark.sql.Variables;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.plans.logical.CompoundBody;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.command.ExplainCommand;

/**
 * Recognises transaction statements and gives write statements their boundary; everything else is
 * the delegate's.
 */
public final class TxnParser extends DelegatingParser {

  private final SparkSession session;

  public TxnParser(SparkSession session, ParserInterface delegate) {
    super(delegate);
    this.session = session;
  }

  @Override
  protected LogicalPlan parse(String sqlText, Parse parse) throws ParseException {
    // As Spark does before it parses anything; in what is Spark's, Spark replaces them itself.
    String text = Variables.replaced(sqlText);
    Optional<TxnStatement> statement = TxnSqlException.translating(() -> recognise(sqlText, text));
    if (statement.isPresent()) {
      return new TxnCommand(statement.get());
    }
    Optional<String> script = SqlTokens.atomicScript(text);
    return script.isPresent() ? atomic(script.get(), parse) : wrap(parse.of(sqlText));
  }

  /** Parsed now, so that errors of its syntax come first, and again at each run. */
  private LogicalPlan atomic(String script, Parse parse) throws ParseException {
    LogicalPlan plan = parse.of(script);
    if (!(plan instanceof CompoundBody)) {
      throw TxnSqlException.<RuntimeException>sneaky(
          TxnSqlException.of(
              TxnException.invalidUsage(
                  "42601", "BEGIN ATOMIC needs statements, each ended by a semicolon, and END")));
    }
    return new TxnAtomicCommand(script, text -> wrap(parse.of(text)));
  }

  private Optional<TxnStatement> recognise(String sqlText, String replaced) {
    Optional<TxnStatement> statement = TxnStatementParser.parse(replaced);
    if (statement.isEmpty()) {
      TxnSession.of(session).checkNotAborted();
    } else if (statement.get().hasTexts()) {
      Variables.checkAreSet(sqlText);
    }
    return statement;
  }

  private LogicalPlan wrap(LogicalPlan plan) {
    if (plan instanceof CompoundBody script) {
      return ScriptStatements.wrapped(script, this::wrap);
    }
    if (plan instanceof ExplainCommand explain) {
      return isWrite(explain.logicalPlan()) ? new TxnExplainCommand(explain) : plan;
    }
    boolean inTransaction = TxnSession.of(session).open().isPresent();
    Optional<ParsedDml> dml = ParsedDml.of(plan, delegate);
    if (dml.isPresent()) {
      TransactionCatalog catalog = catalogOf(dml.get().target());
      if (catalog != null) {
        return new TxnDmlCommand(plan, dml.get(), catalog);
      }
      return inTransaction ? TxnRowlessCommand.inside(plan, null) : plan;
    }
    if (inTransaction && DdlPlans.isDdl(plan)) {
      return TxnRowlessCommand.inside(plan, catalogOf(DdlPlans.target(plan, delegate)));
    }
    List<ParsedDml> inserts = ParsedDml.ofMultiInsert(plan, delegate);
    boolean isOurs =
        inTransaction || inserts.stream().anyMatch(insert -> catalogOf(insert.target()) != null);
    return !inserts.isEmpty() && isOurs ? TxnRowlessCommand.multiInsert(plan, inserts) : plan;
  }

  private boolean isWrite(LogicalPlan plan) {
    return ParsedDml.of(plan, delegate).isPresent()
        || !ParsedDml.ofMultiInsert(plan, delegate).isEmpty();
  }

  private TransactionCatalog catalogOf(List<String> name) {
    return name == null ? null : Catalogs.ofName(session, name);
  }
}
