package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatExceptionOfType;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Who has read a record that is made void since (docs/spec.md 9.6, 11.1). */
class VoidRecordTest extends TwoTables {
  /** What `txns recover --void` does to the newest record, where none of its tables is told. */
  private void makeVoid() {
    Table log = outside.loadTable(id("txns.commits"));
    Snapshot record = log.currentSnapshot();
    String upper = record.summary().get("txns.upper");
    log.newFastAppend()
        .set("txns.format-version", "1")
        .set("txns.kind", "tidy")
        .set("txns.txn-id", "void")
        .set("txns.upper", upper)
        .set("txns.tidied-upto", upper)
        .commit();
    TableOperations operations = ((BaseTable) log).operations();
    TableMetadata base = operations.refresh();
    operations.commit(base, base.removeSnapshotsIf(each -> each.equals(record)));
  }

  private Transaction begun(String table, boolean overwrites) {
    TxnHandle other = lake.open(Map.of("txns.apply", "next"));
    Transaction txn = other.begin(BeginOptions.defaults());
    Table staged = other.catalog(() -> txn).loadTable(id(table));
    if (overwrites) {
      overwrite(staged, 9);
    } else {
      append(staged, 9);
    }
    return txn;
  }

  private void assertRefused(Transaction txn) {
    assertThatExceptionOfType(TxnException.class)
        .isThrownBy(txn::commit)
        .withMessageContaining("was made void")
        .satisfies(e -> assertThat(e.kind()).isEqualTo(ErrorKind.CONFLICT));
  }

  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aCreationThatIsVoidIsWrittenByNobody(boolean overwrites) {
    Lake.leaveApplies(lazy);
    lazy.catalog(() -> null).createTable(id("shop.c"), Lake.SCHEMA);
    Transaction txn = begun("shop.c", overwrites);
    makeVoid();
    assertRefused(txn);
    assertThatThrownBy(() -> lake.open().catalog(() -> null).loadTable(id("shop.c")))
        .isInstanceOf(NoSuchTableException.class);
  }

  @Test
  void nobodyWritesOverWhatIsVoid() {
    Lake.leaveApplies(lazy);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Transaction txn = begun("shop.a", true);
    makeVoid();
    assertRefused(txn);
  }

  @Test
  void anAppendGoesToWhatIsLeft() {
    Lake.leaveApplies(lazy);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Transaction txn = begun("shop.a", false);
    makeVoid();
    txn.commit();
    lake.open().apply();
    assertThat(lake.plainIds("shop.a")).isEqualTo(List.of(1L, 9L));
  }

  @ParameterizedTest
  @EnumSource
  void whatWasMadeOfWhatIsVoidIsNotCommitted(Isolation isolation) {
    Lake.leaveApplies(lazy);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Transaction txn = readingAndWriting(isolation);
    makeVoid();
    assertRefused(txn);
    assertThat(lake.plainIds("shop.b")).isEmpty();
  }

  @ParameterizedTest
  @EnumSource
  void whatIsAppliedSinceItWasReadIsThere(Isolation isolation) {
    Lake.leaveApplies(lazy);
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    Transaction txn = readingAndWriting(isolation);
    lake.open().apply();
    lake.open().tidy();
    assertThat(Lake.standing(handle)).isEmpty();
    txn.commit();
    assertThat(lake.txnIds("shop.b")).containsExactly(9L);
  }

  private Transaction readingAndWriting(Isolation isolation) {
    TxnHandle other = lake.open(Map.of("txns.apply", "next"));
    Transaction txn = other.begin(BeginOptions.defaults().withIsolation(isolation));
    other.catalog(() -> txn).loadTable(id("shop.a")).newScan().planFiles().forEach(task -> {});
    txn.recordRead(id("shop.a"));
    append(other.catalog(() -> txn).loadTable(id("shop.b")), 9);
    return txn;
  }
}
