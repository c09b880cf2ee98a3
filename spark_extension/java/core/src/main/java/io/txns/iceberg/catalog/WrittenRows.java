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
import org.apache.iceberg.types.Type.TypeID;

/**
 * By which rows one operation has chosen what it writes, as it is asked for that.
 *
 * <p>A filter that rows are deleted or overwritten by says it, one that conflicts are to be
 * detected by, and the partitions that are replaced. Of files that it is told to delete, and of
 * rows that it adds, nothing but the second does.
 */
final class WrittenRows {
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

  /** Whether a filter takes a partition's values as they are: not so those in nanoseconds. */
  private static boolean isPlain(PartitionSpec spec, PartitionField field) {
    return PLAIN.contains(spec.schema().findType(field.sourceId()).typeId());
  }

  /** The rows of the partition of a file, and perhaps others. */
  private Expression partition(DataFile file) {
    PartitionSpec spec = specs.get(file.specId());
    Expression rows = Expressions.alwaysTrue();
    for (int at = 0; spec != null && at < spec.fields().size(); at++) {
      PartitionField field = spec.fields().get(at);
      String column = spec.schema().findColumnName(field.sourceId());
      Object value = file.partition().get(at, Object.class);
      if (field.transform().isIdentity() && column != null && isPlain(spec, field)) {
        rows =
            Expressions.and(
                rows,
                value == null ? Expressions.isNull(column) : Expressions.equal(column, value));
      }
    }
    return rows;
  }
}
