package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.PartitionField;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.types.Types;

/**
 * Names of partition fields with which Iceberg loads no table, though its builder makes it: those
 * of a column that came after the spec (docs/spec.md, 8.1); pure.
 */
public final class PartitionNames {
  private PartitionNames() {}

  /**
   * The same metadata.
   *
   * @param base the table before the change
   * @throws ValidationException where it has such a name that the table did not have
   */
  public static TableMetadata checked(TableMetadata base, TableMetadata replayed) {
    if (base.schema().sameSchema(replayed.schema()) && base.specs().equals(replayed.specs())) {
      return replayed;
    }
    List<String> there = clashing(base);
    for (String name : clashing(replayed)) {
      ValidationException.check(
          there.contains(name),
          "partition spec and field %s: called as another, or as a column that it is not of",
          name);
    }
    return replayed;
  }

  private static List<String> clashing(TableMetadata metadata) {
    List<String> found = new ArrayList<>();
    Schema schema = metadata.schema();
    for (PartitionSpec spec : metadata.specs()) {
      Set<String> names = new HashSet<>();
      for (PartitionField field : spec.fields()) {
        Types.NestedField column = schema.findField(field.name());
        boolean anothers =
            column != null
                && column.fieldId() != field.sourceId()
                && schema.findField(field.sourceId()) != null;
        if (field.name().isEmpty() || !names.add(field.name()) || anothers) {
          found.add(spec.specId() + " " + field.name());
        }
      }
    }
    return found;
  }
}
