package io.txns.iceberg.meta;

import java.util.HashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import org.apache.iceberg.Schema;
import org.apache.iceberg.types.Type;
import org.apache.iceberg.types.TypeUtil;
import org.apache.iceberg.types.Types;

/** The ids of columns: what has been written under one is read as the column that has it. */
public final class ColumnIds {
  private ColumnIds() {}

  /** Whether every library reads a column of one type as another; the columns in it aside. */
  public static boolean readsAs(Type written, Type wanted) {
    return wanted.isPrimitiveType()
        ? TypeUtil.isPromotionAllowed(written, wanted.asPrimitiveType())
        : written.typeId() == wanted.typeId();
  }

  /**
   * New columns with the ids that their full names have in an old schema, where what the old ones
   * hold can be read as the new ones; all others get new ids. Specs and sort orders of before are
   * bound to the newest columns whenever the table is loaded: one cannot bucket by a double.
   *
   * @param last the last id that has been given; it goes on from there
   */
  public static Schema keptWhereReadable(Schema old, Schema wanted, AtomicInteger last) {
    Schema named = TypeUtil.assignFreshIds(wanted, old, last::incrementAndGet);
    Map<Integer, Types.NestedField> fields = new TreeMap<>(TypeUtil.indexById(named.asStruct()));
    Map<Integer, Integer> parents = TypeUtil.indexParents(named.asStruct());
    Map<Integer, Integer> moved = new HashMap<>();
    for (int id : fields.keySet()) {
      if (old.findField(id) != null && !isReadable(old, fields, parents, id)) {
        moved.put(id, last.incrementAndGet());
      }
    }
    return moved.isEmpty() ? named : moved(named, moved);
  }

  /** A column of another kind has none of the old one's columns. */
  private static boolean isReadable(
      Schema old, Map<Integer, Types.NestedField> fields, Map<Integer, Integer> parents, int id) {
    for (Integer at = id; at != null; at = parents.get(at)) {
      Types.NestedField before = old.findField(at);
      if (before == null || !readsAs(before.type(), fields.get(at).type())) {
        return false;
      }
    }
    return true;
  }

  private static Schema moved(Schema schema, Map<Integer, Integer> ids) {
    Type columns = TypeUtil.assignIds(schema.asStruct(), id -> ids.getOrDefault(id, id));
    Set<Integer> identifiers =
        schema.identifierFieldIds().stream()
            .map(id -> ids.getOrDefault(id, id))
            .collect(Collectors.toSet());
    return new Schema(columns.asStructType().fields(), identifiers);
  }
}
