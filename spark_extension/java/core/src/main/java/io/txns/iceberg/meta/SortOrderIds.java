package io.txns.iceberg.meta;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.HashMap;
import java.util.Map;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.SortOrderParser;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;

/**
 * The ids under which the sort orders of one logged change stand in a table: a stranger may have
 * taken those that they were staged with, or have added an equal one.
 */
final class SortOrderIds {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final int LAST_ADDED = -1;
  private static final int FIRST = 1;

  private final Map<Integer, JsonNode> known = new HashMap<>();
  private final Map<Integer, Integer> ids = new HashMap<>();
  private int last = LAST_ADDED;

  SortOrderIds(TableMetadata base) {
    if (base != null) {
      base.sortOrders()
          .forEach(order -> known.put(order.orderId(), fields(SortOrderParser.toJson(order))));
    }
  }

  /** An update by the table's ids; null where the table has what it adds. */
  MetadataUpdate here(MetadataUpdate update) {
    if (update instanceof MetadataUpdate.AddSortOrder add) {
      JsonNode logged = parsed(SortOrderParser.toJson(add.sortOrder()));
      last = idOf(logged.get("fields"));
      ids.put(logged.get("order-id").asInt(), last);
      if (known.put(last, logged.get("fields")) != null) {
        return null;
      }
      String here = ((ObjectNode) logged).put("order-id", last).toString();
      return new MetadataUpdate.AddSortOrder(SortOrderParser.fromJson(here));
    }
    return update instanceof MetadataUpdate.SetDefaultSortOrder set
        ? new MetadataUpdate.SetDefaultSortOrder(here(set.sortOrderId()))
        : update;
  }

  UpdateRequirement here(UpdateRequirement requirement) {
    return requirement instanceof UpdateRequirement.AssertDefaultSortOrderID order
        ? new UpdateRequirement.AssertDefaultSortOrderID(here(order.sortOrderId()))
        : requirement;
  }

  private int here(int logged) {
    return logged == LAST_ADDED ? last : ids.getOrDefault(logged, logged);
  }

  /** As {@code TableMetadata.Builder} gives it: an equal order's, or the next free one. */
  private int idOf(JsonNode fields) {
    if (fields.isEmpty()) {
      return SortOrder.unsorted().orderId();
    }
    int next = FIRST;
    for (Map.Entry<Integer, JsonNode> other : known.entrySet()) {
      if (other.getValue().equals(fields)) {
        return other.getKey();
      }
      next = Math.max(next, other.getKey() + 1);
    }
    return next;
  }

  private static JsonNode fields(String order) {
    return parsed(order).get("fields");
  }

  private static JsonNode parsed(String order) {
    try {
      return JSON.readTree(order);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Iceberg wrote a sort order that is not JSON", e);
    }
  }
}
