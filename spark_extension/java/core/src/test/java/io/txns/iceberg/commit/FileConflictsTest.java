package io.txns.iceberg.commit;

import static io.txns.iceberg.Days.day;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Days;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Operation;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.table.Loaded;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.apache.iceberg.HasTableOperations;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** Whoever is held against others again, at an early look or an attempt, reads what came since. */
class FileConflictsTest {
  private static final TableIdentifier DAYS = Lake.id("shop.days");

  @TempDir Path folder;
  private final ReadSet reads = new ReadSet();
  private final Meetings known = new Meetings();
  private Table table;
  private TableOperations operations;
  private int snapshotsRead;

  @BeforeEach
  void readTheFirstDay() {
    table = Days.create(new Lake(folder), DAYS.toString(), Map.of("format-version", "2"));
    operations = ((HasTableOperations) table).operations();
    reads.base(operations.current());
    read(1);
  }

  private void read(long day) {
    TableMetadata base = operations.current();
    ReadSet.RowFilter filter = new ReadSet.RowFilter(day(day), true, base.currentSchemaId());
    reads.filter(DAYS, TableNames.uuid(base), filter);
  }

  private void appendTo(long day) {
    table.newAppend().appendFile(Days.file(table, day, 99)).commit();
  }

  /** What is met of an entry that has changed the table. */
  private Optional<Meetings.Meeting> met() {
    String uuid = TableNames.uuid(operations.current());
    Change change = new Change(DAYS, uuid, Operation.APPEND, 1L, 2L, 1, 0);
    Entry entry =
        new Entry(
            EntryKind.COMMIT,
            2,
            1,
            2,
            0,
            1,
            "another",
            Isolation.SNAPSHOT,
            "",
            "",
            List.of(change),
            Entry.Payload.NONE);
    return new FileConflicts(
            reads,
            Set.of("another"),
            name -> new Loaded.Unregistered(name, table, operations),
            () -> snapshotsRead++,
            known)
        .met(entry, change);
  }

  @Test
  void whatASnapshotChangedIsReadOnce() {
    appendTo(2);
    appendTo(3);
    assertThat(met()).isEmpty();
    assertThat(snapshotsRead).isEqualTo(2);
    assertThat(met()).isEmpty();
    assertThat(snapshotsRead).isEqualTo(2);
    appendTo(1);
    assertThat(met()).hasValueSatisfying(met -> assertThat(met.words()).contains("day = 1"));
    appendTo(2);
    assertThat(met()).isPresent();
    assertThat(snapshotsRead).isEqualTo(4);
  }

  @Test
  void whoHasReadMoreLooksAgain() {
    appendTo(2);
    assertThat(met()).isEmpty();
    read(2);
    assertThat(met()).hasValueSatisfying(met -> assertThat(met.words()).contains("day = 2"));
    assertThat(snapshotsRead).isEqualTo(2);
  }
}
