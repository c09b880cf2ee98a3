package io.txns.spark.procedure;

import io.txns.spark.TxnSqlException;
import java.util.Iterator;
import java.util.List;
import java.util.function.Function;
import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.connector.catalog.procedures.BoundProcedure;
import org.apache.spark.sql.connector.catalog.procedures.ProcedureParameter;
import org.apache.spark.sql.connector.catalog.procedures.UnboundProcedure;
import org.apache.spark.sql.connector.read.LocalScan;
import org.apache.spark.sql.connector.read.Scan;
import org.apache.spark.sql.types.StructType;

/** A procedure that is one function from its arguments to its rows. */
final class TxnProcedure implements UnboundProcedure, BoundProcedure {

  private final String name;
  private final String description;
  private final StructType schema;
  private final Function<InternalRow, InternalRow[]> function;
  private final ProcedureParameter[] parameters;

  TxnProcedure(
      String name,
      String description,
      StructType schema,
      Function<InternalRow, InternalRow[]> function,
      ProcedureParameter... parameters) {
    this.name = name;
    this.description = description;
    this.schema = schema;
    this.function = function;
    this.parameters = parameters;
  }

  /** Rows that are known already. */
  private record Rows(StructType readSchema, InternalRow[] rows) implements LocalScan {}

  @Override
  public String name() {
    return name;
  }

  @Override
  public String description() {
    return description;
  }

  @Override
  public BoundProcedure bind(StructType inputType) {
    return this;
  }

  @Override
  public ProcedureParameter[] parameters() {
    return parameters.clone();
  }

  @Override
  public boolean isDeterministic() {
    return false;
  }

  @Override
  public Iterator<Scan> call(InternalRow arguments) {
    return TxnSqlException.translating(
        () -> List.<Scan>of(new Rows(schema, function.apply(arguments))).iterator());
  }
}
