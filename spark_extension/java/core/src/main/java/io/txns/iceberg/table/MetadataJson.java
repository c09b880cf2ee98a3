package io.txns.iceberg.table;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnException;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;

/** Metadata as JSON, for what Iceberg's builder does not do: it only goes forward. */
final class MetadataJson {
  private static final ObjectMapper JSON = new ObjectMapper();

  private MetadataJson() {}

  static ObjectNode of(TableMetadata metadata) {
    return (ObjectNode) read(TableMetadataParser.toJson(metadata));
  }

  /** What one of Iceberg's parsers has written. */
  static JsonNode read(String json) {
    try {
      return JSON.readTree(json);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException("Iceberg wrote metadata that is not JSON", e);
    }
  }

  /**
   * The metadata that a node of {@code base} has become.
   *
   * @throws TxnException CorruptLog where that is none: changes gave an id to two schemas
   */
  static TableMetadata parsed(TableMetadata base, ObjectNode node) {
    try {
      return TableMetadataParser.fromJson(base.metadataFileLocation(), node.toString());
    } catch (IllegalArgumentException e) {
      throw TxnException.corruptLog(
          "what is logged makes no metadata of the table; uuid=`"
              + TableNames.uuid(base)
              + "`: "
              + e.getMessage());
    }
  }
}
