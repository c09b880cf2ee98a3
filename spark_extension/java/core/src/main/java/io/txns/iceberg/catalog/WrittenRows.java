package io.txns.iceberg.catalog;

import java.util.ArrayList;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.expressions.UnboundTerm;
import org.apache.iceberg.transforms.Transform;
import org.apache.iceberg.types.Type.TypeID;

/**
 * By which rows one operation has chosen what it writes, as it is asked for that.
 *
 * <p>A filter that rows are deleted or overwritten by says it, one that conflicts are to be
 * detected by, and the partitions that are replaced. Of files that it is told to delete, and of
 * rows that it adds, nothing but the second does.
 */
final class WrittenRows {
  /** A filter takes values of these as they are: not so those in nanoseconds. */
  private static final Set<TypeID> PLAIN =
      Set.of(
          TypeID.BOOLEAN,
          TypeID.INTEGER,
          TypeID.LONG,
          TypeID.STRING,
          TypeID.DATE,
          TypeID.DECIMAL,
          TypeID.TIMESTAMP);

  private final Map<Integer, PartitionSpec> specs;
  private final List<Expression> filters = new ArrayList<>();
  private Expression detecting;
  private boolean takesFiles;
  private boolean caseSensitive = true;

  WrittenRows(Map<Integer, PartitionSpec> specs) {
    this.specs = Map.copyOf(specs);
  }

  boolean isCaseSensitive() {
    return caseSensitive;
  }

  /** The filters that its rows match; empty where nobody knows. */
  Optional<List<Expression>> filters() {
    List<Expression> all = new ArrayList<>(filters);
    if (detecting != null) {
      all.add(detecting);
    }
    boolean said = detecting != null || !filters.isEmpty() && !takesFiles;
    return said ? Optional.of(all) : Optional.empty();
  }

  /**
   * It is asked for something.
   *
   * @param method of Iceberg's DeleteFiles, OverwriteFiles, ReplacePartitions or RowDelta
   */
  void note(String method, Object[] arguments, boolean replacesPartitions) {
    switch (method) {
      case "deleteFromRowFilter", "overwriteByRowFilter" -> filters.add((Expression) arguments[0]);
      case "conflictDetectionFilter" -> detecting = (Expression) arguments[0];
      case "caseSensitive" -> caseSensitive = (Boolean) arguments[0];
      case "deleteFile", "removeRows", "removeDeletes", "addDeletes" -> takesFiles = true;
      case "deleteFiles" -> takesFiles |= hasFiles(arguments);
      case "addFile" -> {
        if (replacesPartitions) {
          filters.add(partition((DataFile) arguments[0]));
        }
      }
      default -> {}
    }
  }

  private static boolean hasFiles(Object[] arguments) {
    for (Object files : arguments) {
      if (!((Collection<?>) files).isEmpty()) {
        return true;
      }
    }
    return false;
  }

  /** The rows of the partition of a file, and perhaps others. */
  private Expression partition(DataFile file) {
    PartitionSpec spec = specs.get(file.specId());
    Expression rows = Expressions.alwaysTrue();
    for (int at = 0; spec != null && at < spec.fields().size(); at++) {
      Object value = file.partition().get(at, Object.class);
      rows = Expressions.and(rows, ofField(spec, spec.fields().get(at), value));
    }
    return rows;
  }

  /** The rows that have a value in a partition field, and perhaps others. */
  private static Expression ofField(PartitionSpec spec, PartitionField field, Object value) {
    String column = spec.schema().findColumnName(field.sourceId());
    Transform<?, ?> transform = field.transform();
    if (column == null || transform.isVoid()) {
      return Expressions.alwaysTrue();
    }
    if (value == null) { // transforms give it for no other value
      return Expressions.isNull(column);
    }
    // Of a transform with numbers for results the column may be of any type.
    if (!PLAIN.contains(transform.getResultType(spec.schema().findType(column)).typeId())) {
      return Expressions.alwaysTrue();
    }
    return transform.isIdentity()
        ? Expressions.equal(column, value)
        : Expressions.equal(transformed(column, transform), value);
  }

  @SuppressWarnings("unchecked") // values of partitions are of the transform's results
  private static UnboundTerm<Object> transformed(String column, Transform<?, ?> transform) {
    return Expressions.transform(column, (Transform<?, Object>) transform);
  }
}
