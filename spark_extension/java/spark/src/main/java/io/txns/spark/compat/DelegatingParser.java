package io.txns.spark.compat;

import org.apache.spark.sql.catalyst.FunctionIdentifier;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.parser.HybridParameterContext;
import org.apache.spark.sql.catalyst.parser.NamedParameterContext;
import org.apache.spark.sql.catalyst.parser.ParameterContext;
import org.apache.spark.sql.catalyst.parser.ParseException;
import org.apache.spark.sql.catalyst.parser.ParserInterface;
import org.apache.spark.sql.catalyst.parser.PositionalParameterContext;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.execution.SparkSqlParser;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import scala.collection.immutable.Seq;

/**
 * A parser that leaves everything but statements to another one. Spark 4.0 binds parameters after
 * parsing, where 4.1 hands them over with the text; 4.3 asks for {@code splitStatements}, too.
 */
public abstract class DelegatingParser implements ParserInterface {

  // A plain field of this type: Iceberg walks the chain of parsers by reflection.
  protected final ParserInterface delegate;

  protected DelegatingParser(ParserInterface delegate) {
    this.delegate = delegate;
  }

  /** What turns a text into a plan, with the parameters that it came with. */
  public interface Parse {
    LogicalPlan of(String sqlText) throws ParseException;
  }

  /** Parses a statement; {@code parse} is what the delegate makes of it, or of another text. */
  protected abstract LogicalPlan parse(String sqlText, Parse parse) throws ParseException;

  @Override
  public final LogicalPlan parsePlan(String sqlText) throws ParseException {
    return parse(sqlText, delegate::parsePlan);
  }

  @Override
  public final LogicalPlan parsePlanWithParameters(String sqlText, ParameterContext context)
      throws ParseException {
    return parse(
        sqlText,
        text ->
            isEmpty(context)
                ? delegate.parsePlanWithParameters(text, context)
                // Iceberg 1.11.0's parser drops the parameters.
                : new SparkSqlParser().parsePlanWithParameters(text, context));
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
  public final Expression parseExpression(String sqlText) throws ParseException {
    return delegate.parseExpression(sqlText);
  }

  @Override
  public final TableIdentifier parseTableIdentifier(String sqlText) throws ParseException {
    return delegate.parseTableIdentifier(sqlText);
  }

  @Override
  public final FunctionIdentifier parseFunctionIdentifier(String sqlText) throws ParseException {
    return delegate.parseFunctionIdentifier(sqlText);
  }

  @Override
  public final Seq<String> parseMultipartIdentifier(String sqlText) throws ParseException {
    return delegate.parseMultipartIdentifier(sqlText);
  }

  @Override
  public final LogicalPlan parseQuery(String sqlText) throws ParseException {
    return delegate.parseQuery(sqlText);
  }

  @Override
  public final StructType parseRoutineParam(String sqlText) throws ParseException {
    return delegate.parseRoutineParam(sqlText);
  }

  @Override
  public final StructType parseTableSchema(String sqlText) throws ParseException {
    return delegate.parseTableSchema(sqlText);
  }

  @Override
  public final DataType parseDataType(String sqlText) throws ParseException {
    return delegate.parseDataType(sqlText);
  }
}
