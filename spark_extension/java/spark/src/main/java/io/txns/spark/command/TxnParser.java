package io.txns.spark.command;

import io.txns.iceberg.TxnException;
import io.txns.spark.TxnSqlException;
import io.txns.spark.session.Catalogs;
import io.txns.spark.session.TransactionCatalog;
import io.txns.spark.session.TxnSession;
import io.txns.spark.sql.DdlPlans;
import io.txns.spark.sql.ParsedDml;
import io.txns.spark.sql.ScriptStatements;
import io.txns.spark.sql.SqlTokens;
import io.txns.spark.sql.TxnStatement;
import io.txns.spark.sql.Variables;
import java.util.List;
import java.util.Optional;
import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.HybridParameterContext;
import org.apache.spark.sql.catalyst.parser.NamedParameterContext;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.PositionalParameterContext;
import org.apache.spark.sql.catalyst.plans.logical.CompoundBody;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.classic.SparkSession;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.execution.command.ExplainCommand;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * Recognises transaction statements and gives write statements their boundary; everything else is
 * the delegate's.
 */
public final class TxnParser implements ParserInterface {

  // A plain field of this type: Iceberg walks the chain of parsers by reflection.
  private final ParserInterface delegate;
  private final SparkSession session;

  public TxnParser(SparkSession session, ParserInterface delegate) {
    this.session = session;
    this.delegate = delegate;
  }

  @Override
  public LogicalPlan parsePlan(String sqlText) throws ParseException {
    return parse(sqlText, delegate::parsePlan);
  }

  @Override
  public LogicalPlan parsePlanWithParameters(String sqlText, ParameterContext context)
      throws ParseException {
    return parse(
        sqlText,
        text ->
            isEmpty(context)
                ? delegate.parsePlanWithParameters(text, context)
                // Iceberg 1.11.0's parser drops the parameters.
                : new SparkSqlParser().parsePlanWithParameters(text, context));
  }

  /** What turns a text into a plan, with the parameters that it came with. */
  interface Parse {
    LogicalPlan of(String sqlText) throws ParseException;
  }

  private LogicalPlan parse(String sqlText, Parse parse) throws ParseException {
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
    Optional<TxnStatement> statement = TxnStatement.parse(replaced);
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
    List<List<String>> targets = ParsedDml.multiInsertTargets(plan, delegate);
    boolean ours = targets.stream().anyMatch(target -> catalogOf(target) != null);
    return ours || inTransaction && ParsedDml.isMultiInsert(plan)
        ? TxnRowlessCommand.multiInsert(plan, targets)
        : plan;
  }

  private boolean isWrite(LogicalPlan plan) {
    return ParsedDml.of(plan, delegate).isPresent() || ParsedDml.isMultiInsert(plan);
  }

  private TransactionCatalog catalogOf(List<String> name) {
    return name == null ? null : Catalogs.ofName(session, name);
  }

  private static boolean isEmpty(ParameterContext context) {
    if (context instanceof NamedParameterContext named) {
      return named.params().isEmpty();
    } else if (context instanceof PositionalParameterContext positional) {
      return positional.params().isEmpty();
    } else if (context instanceof HybridParameterContext hybrid) {
      return hybrid.args().isEmpty();
    }
    return false;
  }

  @Override
  public Expression parseExpression(String sqlText) throws ParseException {
    return delegate.parseExpression(sqlText);
  }

  @Override
  public TableIdentifier parseTableIdentifier(String sqlText) throws ParseException {
    return delegate.parseTableIdentifier(sqlText);
  }

  @Override
  public FunctionIdentifier parseFunctionIdentifier(String sqlText) throws ParseException {
    return delegate.parseFunctionIdentifier(sqlText);
  }

  @Override
  public Seq<String> parseMultipartIdentifier(String sqlText) throws ParseException {
    return delegate.parseMultipartIdentifier(sqlText);
  }

  @Override
  public LogicalPlan parseQuery(String sqlText) throws ParseException {
    return delegate.parseQuery(sqlText);
  }

  @Override
  public StructType parseRoutineParam(String sqlText) throws ParseException {
    return delegate.parseRoutineParam(sqlText);
  }

  @Override
  public StructType parseTableSchema(String sqlText) throws ParseException {
    return delegate.parseTableSchema(sqlText);
  }

  @Override
  public DataType parseDataType(String sqlText) throws ParseException {
    return delegate.parseDataType(sqlText);
  }
}
