package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.id;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Operation;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.SnapshotParser;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** Records that nobody who keeps to the protocol writes. */
final class Forgeries {
  static final String UUID = "00000000-0000-0000-0000-000000000001";

  private Forgeries() {}

  /** Log the creation of a table with a snapshot 7, at a place. */
  static void logCreation(
      TxnHandle handle,
      TableIdentifier name,
      String location,
      String list,
      Map<String, String> properties) {
    String uuid = UUID;
    Head head = handle.services().log().load();
    long ts = head.upper() + 1;
    Map<String, String> all = new HashMap<>(properties);
    all.put("txns.commit-table", "txns.commits");
    all.put("txns.log-id", head.logId());
    all.put("txns.table-uuid", uuid);
    all.put("txns.created", Long.toString(ts));
    List<MetadataUpdate> updates =
        List.of(
            new MetadataUpdate.AssignUUID(uuid),
            new MetadataUpdate.UpgradeFormatVersion(2),
            new MetadataUpdate.AddSchema(Lake.SCHEMA),
            new MetadataUpdate.SetCurrentSchema(-1),
            new MetadataUpdate.AddPartitionSpec(PartitionSpec.unpartitioned()),
            new MetadataUpdate.SetDefaultPartitionSpec(-1),
            new MetadataUpdate.AddSortOrder(SortOrder.unsorted()),
            new MetadataUpdate.SetDefaultSortOrder(-1),
            new MetadataUpdate.SetLocation(location),
            new MetadataUpdate.SetProperties(all),
            new MetadataUpdate.AddSnapshot(
                SnapshotParser.fromJson(
                    String.format(
                        "{\"snapshot-id\":7,\"sequence-number\":1,\"timestamp-ms\":%d,"
                            + "\"schema-id\":0,\"manifest-list\":\"%s\",\"summary\":"
                            + "{\"operation\":\"append\",\"txns.commit-ts\":\"%d\","
                            + "\"txns.txn-id\":\"forged\"}}",
                        ts, list, ts))),
            new MetadataUpdate.SetSnapshotRef(
                "main", 7L, SnapshotRef.branchBuilder(7).build().type(), 10, 86_400_000L, null));
    UpdateTableRequest request =
        UpdateTableRequest.create(
            name, List.of(new UpdateRequirement.AssertTableDoesNotExist()), updates);
    Change change = new Change(name, uuid, Operation.CREATE, null, 7L, 0, 0);
    handle.services().log().append(head, List.of(entry(EntryKind.COMMIT, head, request, change)));
  }

  /** Log a snapshot 7 on main of shop.a, with what else is forged. */
  static LoggedChange log(
      TxnHandle handle, TableMetadata base, EntryKind kind, String list, MetadataUpdate update) {
    Snapshot main = base.currentSnapshot();
    Head head = handle.services().log().load();
    long ts = head.upper() + 1;
    String manifests =
        list == null ? "\"manifests\":[]" : String.format("\"manifest-list\":\"%s\"", list);
    String snapshot =
        String.format(
            "{\"snapshot-id\":7,\"parent-snapshot-id\":%d,\"sequence-number\":%d,"
                + "\"timestamp-ms\":%d,\"schema-id\":0,%s,\"summary\":"
                + "{\"operation\":\"append\",\"txns.commit-ts\":\"%d\",\"txns.txn-id\":\"forged\"}}",
            main.snapshotId(), main.sequenceNumber() + 1, ts, manifests, ts);
    List<MetadataUpdate> updates = new ArrayList<>();
    if (update != null) {
      updates.add(update);
    }
    updates.add(new MetadataUpdate.AddSnapshot(SnapshotParser.fromJson(snapshot)));
    updates.add(
        new MetadataUpdate.SetSnapshotRef(
            "main", 7L, SnapshotRef.branchBuilder(7).build().type(), 10, 86_400_000L, null));
    UpdateTableRequest request =
        UpdateTableRequest.create(
            id("shop.a"), List.of(new UpdateRequirement.AssertTableUUID(base.uuid())), updates);
    Change change =
        new Change(id("shop.a"), base.uuid(), Operation.ALTER, main.snapshotId(), 7L, 0, 0);
    Entry forged = entry(kind, head, request, change);
    handle.services().log().append(head, List.of(forged));
    return new LoggedChange(forged, change);
  }

  static Entry entry(EntryKind kind, Head head, UpdateTableRequest request, Change change) {
    long ts = head.upper() + 1;
    String json =
        CommitTransactionRequestParser.toJson(new CommitTransactionRequest(List.of(request)));
    return new Entry(
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
  }
}
