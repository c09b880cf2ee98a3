package io.txns.iceberg.meta;

import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.txns.iceberg.meta.WhatHelps.Clash;
import java.io.IOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.stream.Stream;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** What a conflict says would help: as Python says it, and nothing that would not. */
class WhatHelpsTest {
  private static final Schema SCHEMA = schema("day");

  private static Schema schema(String day) {
    return new Schema(
        optional(1, "id", Types.LongType.get()),
        optional(2, day, Types.LongType.get()),
        optional(3, "at", Types.TimestampType.withoutZone()),
        optional(4, "a b", Types.LongType.get()));
  }

  static Stream<JsonNode> cases() throws IOException {
    Path golden = Path.of("../../../docs/golden/what_helps.json");
    JsonNode cases = new ObjectMapper().readTree(golden.toFile()).get("cases");
    assertThat(cases).isNotEmpty();
    List<JsonNode> all = new ArrayList<>();
    cases.forEach(all::add);
    return all.stream();
  }

  @ParameterizedTest
  @MethodSource("cases")
  void words(JsonNode each) {
    List<Expression> filters = new ArrayList<>();
    each.get(2).forEach(conditions -> filters.add(filter(conditions)));
    List<String> byTable = new ArrayList<>();
    each.get(3).forEach(whose -> byTable.add(whose.asText()));
    Clash clash = Clash.valueOf(each.get(0).asText().toUpperCase(Locale.ROOT));
    String told = each.get(5).asText();
    assertThat(
            WhatHelps.words(clash, table(each.get(1)), filters, byTable, each.get(4).asBoolean()))
        .isEqualTo(told.isEmpty() ? "" : "; what would help: " + told);
  }

  /** It ends no value of the message. */
  @Test
  void aColumnCalledByAnybody() {
    Schema schema = schema("d`; table=`x");
    PartitionSpec spec = PartitionSpec.builderFor(schema).identity("d`; table=`x").build();
    TableMetadata table = table(schema, spec);
    List<Expression> all = List.of(Expressions.alwaysTrue());
    assertThat(WhatHelps.words(Clash.ROWS, table, all, List.of(), false))
        .contains("`d'; table='x`");
  }

  /** A conflict is told all the same. */
  @Test
  void columnsThatDifferInTheirLettersOnly() {
    Schema schema = schema("ID");
    TableMetadata table = table(schema, PartitionSpec.builderFor(schema).identity("ID").build());
    List<Expression> one = List.of(Expressions.equal("ID", 5L));
    assertThat(WhatHelps.words(Clash.ROWS, table, one, List.of(), false)).isEmpty();
  }

  private static TableMetadata table(JsonNode by) {
    PartitionSpec.Builder spec = PartitionSpec.builderFor(SCHEMA);
    for (JsonNode field : by) {
      String column = field.get(0).asText();
      String name = "p" + column + field.get(1).asText();
      switch (field.get(1).asText()) {
        case "identity" -> spec.identity(column, name);
        case "bucket[4]" -> spec.bucket(column, 4, name);
        case "day" -> spec.day(column, name);
        default -> spec.alwaysNull(column, name);
      }
    }
    return table(SCHEMA, spec.build());
  }

  private static TableMetadata table(Schema schema, PartitionSpec spec) {
    return TableMetadata.newTableMetadata(
        schema, spec, SortOrder.unsorted(), "file:///t", Map.of());
  }

  private static Expression filter(JsonNode conditions) {
    Expression all = Expressions.alwaysTrue();
    for (JsonNode condition : conditions) {
      String column = condition.get(0).asText();
      long value = condition.get(2).asLong();
      Expression one =
          switch (condition.get(1).asText()) {
            case "=" -> Expressions.equal(column, value);
            case ">" -> Expressions.greaterThan(column, value);
            default -> Expressions.notNull(column);
          };
      all = Expressions.and(all, one);
    }
    return all;
  }
}
