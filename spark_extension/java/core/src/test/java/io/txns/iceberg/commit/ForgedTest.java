package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.params.provider.Arguments.arguments;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.table.AllowedPlaces;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.iceberg.BaseTable;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.SnapshotRef;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What somebody who may write the commit table alone makes others do (docs/spec.md, 8.1). */
class ForgedTest extends TwoTables {
  @ParameterizedTest
  @EnumSource(
      value = EntryKind.class,
      names = {"REPAIR", "FORGET", "ADOPT"})
  void noRecordChangesATableThatWasNeverUnderCare(EntryKind kind) {
    outside.buildTable(id("shop.c"), Lake.SCHEMA).withProperty("format-version", "2").create();
    append(outside.loadTable(id("shop.c")), 1);
    TableMetadata plain = metadata("shop.c");
    UpdateTableRequest request =
        UpdateTableRequest.create(
            id("shop.c"),
            List.of(new UpdateRequirement.AssertTableUUID(plain.uuid())),
            List.of(new MetadataUpdate.SetProperties(Map.of("taken", "yes"))));
    long main = plain.currentSnapshot().snapshotId();
    Change change = new Change(id("shop.c"), plain.uuid(), Operation.ALTER, main, main + 1, 0, 0);
    Head head = handle.services().log().load();
    Entry forged = Forgeries.entry(kind, head, request, change);
    handle.services().log().append(head, List.of(forged));
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.c").metadataFileLocation()).isEqualTo(plain.metadataFileLocation());
    Table shown = handle.catalog(() -> null).loadTable(id("shop.c"));
    assertThat(shown.currentSnapshot().snapshotId()).isEqualTo(main);
    assertThat(shown.properties()).doesNotContainKey("taken");
    append(handle.catalog(() -> null).loadTable(id("shop.a")), 2);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L);
  }

  /** Whoever lays it over the table may have more rights than who writes the commit table. */
  @ParameterizedTest
  @ValueSource(strings = {"%1$s", "%2$s/../../b/metadata/%3$s", "%2$sx/%3$s"})
  void noRecordMakesATableReadManifestsOfAnotherOne(String place) {
    append(ours.loadTable(id("shop.b")), 66);
    String stolen = metadata("shop.b").currentSnapshot().manifestListLocation();
    TableMetadata before = metadata("shop.a");
    String name = stolen.substring(stolen.lastIndexOf('/') + 1);
    String list = String.format(place, stolen, before.location() + "/metadata", name);
    logForged(EntryKind.COMMIT, list, null);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.a").snapshots())
        .noneMatch(one -> list.equals(one.manifestListLocation()));
    assertThat(lake.plainIds("shop.a")).containsExactly(1L);
    assertThatThrownBy(() -> lazy.catalog(() -> null).loadTable(id("shop.a")))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("txns recover --void");
    append(lake.open().catalog(() -> null).loadTable(id("shop.b")), 67);
    assertThat(lake.plainIds("shop.b")).containsExactly(66L, 67L);
  }

  /** Nobody stumbles over a way that leads out of all folders. */
  @Test
  void noRecordMovesATableAboveEverything() {
    TableMetadata before = metadata("shop.a");
    logForged(EntryKind.COMMIT, "file:/x/7.avro", new MetadataUpdate.SetLocation("/.."));
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.a").metadataFileLocation()).isEqualTo(before.metadataFileLocation());
    assertThatThrownBy(() -> lazy.catalog(() -> null).loadTable(id("shop.a")))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("txns recover --void");
  }

  private static Stream<Arguments> forbidden() {
    return Stream.of(
        arguments(
            EntryKind.COMMIT,
            new MetadataUpdate.AssignUUID("9c12d441-03fe-4693-9a96-a0705ddf69c1"),
            "AssignUUID"),
        arguments(EntryKind.COMMIT, set("txns.applied", "9"), "txns.applied"),
        arguments(EntryKind.COMMIT, set("txns.commit-table", "mine.log"), "txns.commit-table"),
        arguments(EntryKind.COMMIT, set("txns.created", "9"), "txns.created"),
        arguments(EntryKind.COMMIT, set("txns.purging", "somebody"), "txns.purging"),
        arguments(EntryKind.COMMIT, remove("txns.commit-table"), "txns.commit-table"),
        arguments(EntryKind.COMMIT, branch("txns-foreign-1"), "txns-foreign-1"),
        arguments(EntryKind.COMMIT, branch("txns-hold-x"), "txns-hold-x"),
        arguments(EntryKind.FORGET, set("owner", "me"), "SetProperties"),
        arguments(EntryKind.FORGET, remove("txns.applied"), "txns.applied"),
        arguments(EntryKind.FORGET, remove("owner"), "owner"),
        arguments(EntryKind.ADOPT, set("owner", "me"), "owner"),
        arguments(EntryKind.ADOPT, new MetadataUpdate.SetLocation("file:///v"), "SetLocation"),
        arguments(EntryKind.REPAIR, set("txns.table-uuid", "another"), "txns.table-uuid"),
        arguments(EntryKind.REPAIR, new MetadataUpdate.RemoveSnapshotRef("users"), "users"),
        arguments(
            EntryKind.REPAIR, new MetadataUpdate.RemoveSnapshots(Set.of(1L)), "RemoveSnapshots"));
  }

  @Tag("sampled")
  @ParameterizedTest
  @MethodSource("forbidden")
  void noRecordHasAnUpdateThatTheProtocolDoesNotWrite(
      EntryKind kind, MetadataUpdate update, String why) {
    TableMetadata before = metadata("shop.a");
    LoggedChange logged = logForged(kind, before.location() + "/metadata/snap-7.avro", update);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.a").metadataFileLocation()).isEqualTo(before.metadataFileLocation());
    assertThatThrownBy(() -> handle.services().log().request(logged))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG))
        .hasMessageContaining(why);
    append(lake.open().catalog(() -> null).loadTable(id("shop.b")), 3);
    assertThat(lake.plainIds("shop.b")).containsExactly(3L);
  }

  /** Of format 1, whose snapshots name their manifests themselves. */
  @Test
  void noRecordHasASnapshotWithoutAManifestList() {
    LoggedChange logged = logForged(EntryKind.COMMIT, null, null);
    assertThatThrownBy(() -> handle.services().log().request(logged))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.CORRUPT_LOG))
        .hasMessageContaining("manifest-list");
  }

  /** Somebody may have dropped it, or nobody ever had it: both ways out are told. */
  @Test
  void aCreationWithoutANamespaceIsToldHowItEnds() {
    String place = folder.resolve("elsewhere").toUri() + "forged";
    TableIdentifier name = id("no.forged");
    long ts = handle.services().log().load().upper() + 1;
    Forgeries.logCreation(handle, name, place, place + "/metadata/snap-7.avro", Map.of());
    assertThat(handle.apply()).isEqualTo(1);
    AllowedPlaces places = handle.services().places();
    List<MetadataUpdate> moves = List.of(new MetadataUpdate.SetLocation(place));
    assertThatThrownBy(() -> places.refuseToApply(name, null, moves, ts))
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.QUARANTINED))
        .hasMessageContaining("create the namespace again")
        .hasMessageContaining("`txns recover --void " + ts + " --sound`");
    assertThatThrownBy(() -> places.refuseToApply(id("shop.forged"), null, moves, ts))
        .hasMessageContaining("not its catalog's own");
  }

  /** Readers would see rows of the other one, and writers lay files beside its. */
  @ParameterizedTest
  @ValueSource(strings = {"%s", "%s/sub", "%s/../c/../b"})
  void noRecordCreatesATableOverAnotherOnesFiles(String place) {
    append(ours.loadTable(id("shop.b")), 66);
    String stolen = metadata("shop.b").currentSnapshot().manifestListLocation();
    String victim = metadata("shop.b").location();
    logCreation(String.format(place, victim), stolen, Map.of());
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(outside.tableExists(id("shop.forged"))).isFalse();
    append(lake.open().catalog(() -> null).loadTable(id("shop.b")), 67);
    assertThat(lake.plainIds("shop.b")).containsExactly(66L, 67L);
  }

  /** Some libraries add an uuid to each table's place, and some names have one. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void noRecordTakesAPlaceThatTwoNamesLeadTo(boolean victimHasIt) {
    String unique = "x-" + Forgeries.UUID;
    String place = metadata("shop.b").location().replaceFirst("/b$", "/" + unique);
    TableIdentifier victim = id("shop." + (victimHasIt ? unique : "x"));
    TableIdentifier forged = id("shop." + (victimHasIt ? "x" : unique));
    outside.buildTable(victim, Lake.SCHEMA).withLocation(place).create();
    append(outside.loadTable(victim), 66);
    String stolen = outside.loadTable(victim).currentSnapshot().manifestListLocation();
    logCreation(forged, place, stolen, Map.of());
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(outside.tableExists(forged)).isFalse();
  }

  @Test
  void aTableWhoseNameEndsWithAnUuidIsCreated() {
    TableIdentifier name = id("shop.b-" + Forgeries.UUID);
    ours.buildTable(name, Lake.SCHEMA).create();
    append(ours.loadTable(name), 1);
    assertThat(outside.tableExists(name)).isTrue();
  }

  @Test
  void noRecordCreatesATableWhoseMetadataIsAnotherOnes() {
    append(ours.loadTable(id("shop.b")), 66);
    TableMetadata victim = metadata("shop.b");
    logCreation(
        victim.location().replace("/b", "/forged"),
        victim.currentSnapshot().manifestListLocation(),
        Map.of(TableProperties.WRITE_METADATA_LOCATION, victim.location() + "/metadata"));
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(outside.tableExists(id("shop.forged"))).isFalse();
  }

  /** Nor is a branch of what is not applied put on the other one's manifests. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void noRecordMovesATableOverAnotherOnesFiles(boolean location) {
    append(ours.loadTable(id("shop.b")), 66);
    TableMetadata victim = metadata("shop.b");
    TableMetadata before = metadata("shop.a");
    MetadataUpdate moves =
        location
            ? new MetadataUpdate.SetLocation(victim.location())
            : set(TableProperties.WRITE_METADATA_LOCATION, victim.location() + "/metadata");
    logForged(EntryKind.COMMIT, victim.currentSnapshot().manifestListLocation(), moves);
    assertThat(handle.apply()).isEqualTo(1);
    assertThat(metadata("shop.a").metadataFileLocation()).isEqualTo(before.metadataFileLocation());
  }

  @Test
  void aCreationAtAPlaceThatTheApplierAllowsIsApplied() {
    String place = folder.resolve("elsewhere").toUri() + "/x";
    TxnHandle allows =
        lake.open(Map.of("txns.create-locations", "s3://other, " + folder.resolve("elsewhere")));
    TxnHandle leaves =
        lake.open(
            Map.of(
                "txns.create-locations",
                folder.resolve("elsewhere").toString(),
                "txns.apply",
                "next"));
    Table made =
        leaves
            .catalog(() -> null)
            .buildTable(id("shop.x"), Lake.SCHEMA)
            .withLocation(place)
            .create();
    append(made, 1);
    TxnHandle none = lake.open();
    assertThat(none.apply()).isEqualTo(1);
    assertThat(outside.tableExists(id("shop.x"))).isFalse();
    assertThat(none.catalog(() -> null).loadTable(id("shop.x")).location()).isEqualTo(place);
    assertThat(allows.apply()).isZero();
    assertThat(outside.loadTable(id("shop.x")).location()).isEqualTo(place);
    assertThat(lake.plainIds("shop.x")).containsExactly(1L);
  }

  @Test
  void aTableAtAPlaceOfItsOwnNeedsTheOption() {
    String place = folder.resolve("elsewhere").toUri() + "/x";
    needsOption(() -> ours.buildTable(id("shop.x"), Lake.SCHEMA).withLocation(place).create());
    needsOption(() -> ours.loadTable(id("shop.a")).updateLocation().setLocation(place).commit());
    needsOption(
        () ->
            ours.loadTable(id("shop.a"))
                .updateProperties()
                .set(TableProperties.WRITE_METADATA_LOCATION, place)
                .commit());
    needsOption(
        () -> ours.buildTable(id("shop.a"), Lake.SCHEMA).withLocation(place).replaceTransaction());
    ours.dropTable(id("shop.b"));
    needsOption(() -> ours.buildTable(id("shop.b"), Lake.SCHEMA).withLocation(place).create());
    assertThat(outside.tableExists(id("shop.x"))).isFalse();
    String own = "file:" + lake.files() + "/shop/y/";
    ours.buildTable(id("shop.y"), Lake.SCHEMA).withLocation(own).create();
    assertThat(outside.tableExists(id("shop.y"))).isTrue();
  }

  private static void needsOption(ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.kind()).isEqualTo(ErrorKind.UNSUPPORTED))
        .hasMessageContaining("txns.create-locations");
  }

  @Test
  void aBranchOfTheProtocolIsNotAUsers() {
    Table table = ours.loadTable(id("shop.a"));
    long main = table.currentSnapshot().snapshotId();
    assertThatThrownBy(() -> table.manageSnapshots().createBranch("txns-foreign-1", main).commit())
        .hasMessageContaining("txns-foreign-1");
  }

  /** What was staged before lies where the table was. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void aTableWhoseLocationChangesReadsItsOwnManifests(boolean moves) {
    String place = folder.resolve("elsewhere").toUri().toString();
    String allowed = folder.toString();
    TxnHandle moving = lake.open(Map.of("txns.apply", "next", "txns.create-locations", allowed));
    TxnHandle applying = lake.open(Map.of("txns.create-locations", allowed));
    if (moves) {
      moving
          .catalog(() -> null)
          .loadTable(id("shop.a"))
          .updateLocation()
          .setLocation(place)
          .commit();
    }
    append(moving.catalog(() -> null).loadTable(id("shop.a")), 2);
    if (!moves) {
      outside.loadTable(id("shop.a")).updateLocation().setLocation(place).commit();
    }
    assertThat(applying.apply()).isZero();
    append(lake.open().catalog(() -> null).loadTable(id("shop.a")), 3);
    assertThat(lake.plainIds("shop.a")).containsExactly(1L, 2L, 3L);
  }

  /** Log the creation of shop.forged with a snapshot 7, at a place. */
  private void logCreation(String location, String list, Map<String, String> properties) {
    logCreation(id("shop.forged"), location, list, properties);
  }

  private void logCreation(
      TableIdentifier name, String location, String list, Map<String, String> properties) {
    Forgeries.logCreation(handle, name, location, list, properties);
  }

  private LoggedChange logForged(EntryKind kind, String list, MetadataUpdate update) {
    return Forgeries.log(handle, metadata("shop.a"), kind, list, update);
  }

  private static MetadataUpdate set(String key, String value) {
    return new MetadataUpdate.SetProperties(Map.of(key, value));
  }

  private static MetadataUpdate remove(String key) {
    return new MetadataUpdate.RemoveProperties(Set.of(key));
  }

  private static MetadataUpdate branch(String name) {
    return new MetadataUpdate.SetSnapshotRef(
        name, 7L, SnapshotRef.branchBuilder(7).build().type(), null, null, null);
  }

  private TableMetadata metadata(String table) {
    return ((BaseTable) outside.loadTable(id(table))).operations().current();
  }
}
