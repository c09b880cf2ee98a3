package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.Operation;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** What somebody who may write the commit table alone makes others do (docs/spec.md, 8.1). */
class ForgedTest extends TwoTables {
  @ParameterizedTest
  @EnumSource(
      value = EntryKind.class,
      names = {"REPAIR", "FORGET", "ADOPT"})
  void noRecordChangesATableThatWasNeverUnderCare(EntryKind kind) {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    append(outside.loadTable(id("shop.c")), 1);
    TableMetadata plain = metadata();
    UpdateTableRequest request =
        UpdateTableRequest.create(
            id("shop.c"),
            List.of(new UpdateRequirement.AssertTableUUID(plain.uuid())),
            List.of(new MetadataUpdate.SetProperties(Map.of("taken", "yes"))));
    long main = plain.currentSnapshot().snapshotId();
    Change change = new Change(id("shop.c"), plain.uuid(), Operation.ALTER, main, main + 1, 0, 0);
    Head head = handle.services().log().load();
    long ts = head.upper() + 1;
    String json =
        CommitTransactionRequestParser.toJson(new CommitTransactionRequest(List.of(request)));
    Entry forged =
        new Entry(
            kind,
            ts,
            head.upper(),
            ts,
            head.state().tidiedUpto(),
            head.upper(),
            "forged",
            Isolation.SNAPSHOT,
            "",
            "",
            List.of(change),
            new Entry.Payload(json, null, null));
    handle.services().log().append(head, List.of(forged));
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata().metadataFileLocation()).isEqualTo(plain.metadataFileLocation());
    Table shown = handle.catalog(() -> null).loadTable(id("shop.c"));
    assertThat(shown.currentSnapshot().snapshotId()).isEqualTo(main);
    assertThat(shown.properties()).doesNotContainKey("taken");
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  private TableMetadata metadata() {
    return ((BaseTable) outside.loadTable(id("shop.c"))).operations().current();
  }
}
