package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import org.apache.iceberg.Schema;
import org.apache.iceberg.types.Types;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What no other reader would take is refused before it is in the log (docs/spec.md 7.1). */
class ReadableTest extends TwoTables {
  /** A type of ten digits. */
  private static final Schema SCHEMA =
      new Schema(Types.NestedField.optional(1, "blob", Types.FixedType.ofLength(1_000_000_000)));

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whatIcebergTakesAndReadersDoNot(boolean atomic) {
    TxnHandle writer = atomic ? lake.atomic() : lake.open();
    Transaction txn = writer.begin(BeginOptions.defaults());
    writer.catalog(() -> txn).createTable(id("shop.new"), SCHEMA);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("nothing was committed");
    assertThat(outside.tableExists(id("shop.new"))).isFalse();
    assertThat(lake.open().catalog(() -> null).tableExists(id("shop.new"))).isFalse();
  }
}
