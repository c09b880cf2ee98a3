package io.txns.spark;

import java.io.Serializable;
import java.util.List;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.Expression;
import org.apache.spark.sql.catalyst.expressions.codegen.CodeBlock;
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenContext;
import org.apache.spark.sql.catalyst.expressions.codegen.ExprCode;
import org.apache.spark.sql.types.DataType;
import scala.Function1;
import scala.collection.immutable.IndexedSeq;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;

/**
 * An expression's value; whoever asks for it is counted.
 *
 * <p>Not deterministic, so that no rule of the optimizer evaluates it twice, never, or elsewhere
 * than in the job's tasks.
 */
final class CountedRow extends Expression implements Serializable {
  private static final long serialVersionUID = 1L;

  private final Expression child;
  private final RowCounter counter;

  CountedRow(Expression child, RowCounter counter) {
    this.child = child;
    this.counter = counter;
  }

  @Override
  public Seq<Expression> children() {
    return CollectionConverters.asScala(List.of(child)).toSeq();
  }

  @Override
  public Expression mapChildren(Function1<Expression, Expression> function) {
    return over(function.apply(child));
  }

  @Override
  public Expression withNewChildrenInternal(IndexedSeq<Expression> children) {
    return over(children.head());
  }

  private CountedRow over(Expression newChild) {
    return newChild == child ? this : new CountedRow(newChild, counter);
  }

  @Override
  public boolean nullable() {
    return child.nullable();
  }

  @Override
  public DataType dataType() {
    return child.dataType();
  }

  @Override
  public boolean deterministic() {
    return false;
  }

  @Override
  public boolean foldable() {
    return false;
  }

  @Override
  public Object eval(InternalRow input) {
    counter.increment();
    return child.eval(input);
  }

  @Override
  public ExprCode doGenCode(CodegenContext context, ExprCode code) {
    ExprCode value = child.genCode(context);
    String reference = context.addReferenceObj("changedRows", counter, RowCounter.class.getName());
    return value.copy(
        value.code().$plus(new CodeBlock(strings(reference + ".increment();"), strings())),
        value.isNull(),
        value.value());
  }

  @SuppressWarnings({"unchecked", "rawtypes"})
  private static Seq strings(String... parts) {
    return CollectionConverters.asScala(List.of(parts)).toSeq();
  }

  @Override
  public String toString() {
    return "counted(" + child + ")";
  }

  @Override
  public int productArity() {
    return 1;
  }

  @Override
  public Object productElement(int n) {
    return child;
  }

  @Override
  public boolean canEqual(Object that) {
    return that instanceof CountedRow;
  }

  @Override
  public boolean equals(Object that) {
    return that instanceof CountedRow other
        && counter == other.counter
        && child.equals(other.child);
  }

  @Override
  public int hashCode() {
    return child.hashCode();
  }
}
