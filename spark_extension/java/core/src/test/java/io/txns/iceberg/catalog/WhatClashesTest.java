package io.txns.iceberg.catalog;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.file;
import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static io.txns.iceberg.Lake.overwrite;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.HookedOperations;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnCatalog;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.log.Engine;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicBoolean;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Which writes clash: an append is what was made by an append, whatever its snapshot says. */
@Timeout(60)
class WhatClashesTest {
  private static final TableIdentifier A = id("shop.a");

  @TempDir Path folder;
  private Lake lake;
  private TxnHandle handle;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    handle = lake.open();
    lake.create(handle, "shop.a", "shop.b");
    append(auto(), 9);
  }

  private Table auto() {
    return handle.catalog(() -> null).loadTable(A);
  }

  /**
   * Writes that depend on what the table holds and add rows only; Iceberg calls most of them
   * append.
   */
  enum Conditional {
    MERGE_COPY_ON_WRITE {
      @Override
      void run(Table table, long id) {
        table.newOverwrite().addFile(file(table, id)).commit();
      }
    },
    MERGE_ON_READ {
      @Override
      void run(Table table, long id) {
        table.newRowDelta().addRows(file(table, id)).commit();
      }
    },
    OVERWRITE_OF_NOTHING {
      @Override
      void run(Table table, long id) {
        table
            .newOverwrite()
            .overwriteByRowFilter(Expressions.equal("id", id))
            .addFile(file(table, id))
            .commit();
      }
    },
    PUBLISHED {
      @Override
      void run(Table table, long id) {
        table.newAppend().appendFile(file(table, id)).set("wap.id", "w" + id).stageOnly().commit();
        long staged = table.snapshots().iterator().next().snapshotId();
        for (var snapshot : table.snapshots()) {
          staged = snapshot.summary().containsKey("wap.id") ? snapshot.snapshotId() : staged;
        }
        append(table, id + 1000);
        table.manageSnapshots().cherrypick(staged).commit();
      }
    },
    /** It has found no row to replace, and all that it writes is an append. */
    UPSERT_OF_A_NEW_KEY {
      @Override
      void run(Table table, long id) {
        table.newOverwrite();
        append(table, id);
      }
    };

    abstract void run(Table table, long id);
  }

  /** Two transactions at SNAPSHOT that MERGE the same new key: one of them commits. */
  @Tag("sampled")
  @ParameterizedTest
  @EnumSource(Conditional.class)
  void conditionalWritesThatOnlyAddRowsClash(Conditional write) {
    BeginOptions options = BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT);
    Transaction first = handle.begin(options);
    Transaction second = handle.begin(options);
    write.run(handle.catalog(() -> first).loadTable(A), 1);
    write.run(handle.catalog(() -> second).loadTable(A), 1);
    first.commit();
    assertThatThrownBy(second::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
        .hasMessageContaining("wrote over");
  }

  private static void changeNothing(Transaction txn, Table table) {
    txn.writes()
        .withoutEmptySnapshots(
            () -> {
              table.newOverwrite().commit();
              return null;
            });
  }

  /** One that found nothing to write has looked, and is validated where the transaction commits. */
  @Test
  void aConditionalWriteOfNothingClashesAtEveryLevel() {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    Table a = handle.catalog(() -> txn).loadTable(A);
    changeNothing(txn, a);
    append(handle.catalog(() -> txn).loadTable(id("shop.b")), 1);
    append(auto(), 1);
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class, e -> assertThat(e.sqlState()).isEqualTo("40001"))
        .hasMessageContaining("shop.a");
  }

  /** A transaction that writes nothing at all cannot clash. */
  @Test
  void aConditionalWriteOfNothingAloneCommits() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table a = handle.catalog(() -> txn).loadTable(A);
    changeNothing(txn, a);
    append(auto(), 1);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 9L);
  }

  /** Blind appends of many statements, and of Iceberg's fast and merging producers, never clash. */
  @Test
  void appendsNeverClash() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table a = handle.catalog(() -> txn).loadTable(A);
    append(a, 1);
    a.newFastAppend().appendFile(file(a, 2)).commit();
    append(auto(), 3);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 9L);
  }

  /** Iceberg's transaction on a table is an append where all that it does is to append. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void appendsOfIcebergsTransactionNeverClash(boolean throughItsTable) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    appendInSteps(handle.catalog(() -> txn).loadTable(A), throughItsTable, 1);
    append(auto(), 3);
    txn.commit();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 9L);
  }

  private static void appendInSteps(Table table, boolean throughItsTable, long id) {
    org.apache.iceberg.Transaction steps = table.newTransaction();
    if (throughItsTable) {
      append(steps.table(), id);
    } else {
      steps.newAppend().appendFile(file(table, id)).commit();
    }
    steps.newFastAppend().appendFile(file(table, id + 1)).commit();
    steps.commitTransaction();
  }

  /** Outside a transaction of ours, too, it is put on the newer state of the table. */
  @Test
  void icebergsTransactionIsOneStatement() {
    Table table = auto();
    append(auto(), 3);
    appendInSteps(table, false, 1);
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 2L, 3L, 9L);
  }

  /** What else is done in Iceberg's transaction may depend on what the table holds. */
  @ParameterizedTest
  @EnumSource(
      value = Conditional.class,
      names = {"MERGE_COPY_ON_WRITE", "MERGE_ON_READ", "OVERWRITE_OF_NOTHING"})
  void conditionalWritesOfIcebergsTransactionClash(Conditional write) {
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT));
    Table table = handle.catalog(() -> txn).loadTable(A);
    org.apache.iceberg.Transaction steps = table.newTransaction();
    append(steps.table(), 1);
    write.run(steps.table(), 2);
    steps.commitTransaction();
    append(auto(), 3);
    assertThatThrownBy(txn::commit).hasMessageContaining("wrote over");
  }

  @Test
  void icebergsTransactionExpiresNothingInside() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    Table table = handle.catalog(() -> txn).loadTable(A);
    assertThatThrownBy(() -> table.newTransaction().expireSnapshots())
        .hasMessageContaining("run it outside the transaction");
  }

  /** A handle in which something happens after Iceberg has validated, and before our swap. */
  private TxnHandle lateBy(Runnable deed) {
    JdbcCatalog catalog =
        new JdbcCatalog() {
          @Override
          protected TableOperations newTableOps(TableIdentifier identifier) {
            return new AfterValidation(super.newTableOps(identifier), deed);
          }
        };
    catalog.initialize("lake", lake.options());
    return TxnHandle.open("lake", catalog, Lake.INLINE, Lake.CLOCK);
  }

  /** A snapshot gets its id when its operation has been validated on the refreshed table. */
  private static final class AfterValidation extends HookedOperations {
    private final Runnable deed;

    private AfterValidation(TableOperations real, Runnable deed) {
      super(real);
      this.deed = deed;
    }

    @Override
    public long newSnapshotId() {
      deed.run();
      return super.newSnapshotId();
    }
  }

  /**
   * A single statement that merges key 1, while another one does, is refused by Iceberg.
   *
   * <ol>
   *   <li>The statement has refreshed and validated the table; nobody has written it.
   *   <li>Another one adds the same key.
   *   <li>Put on the newer table as an append, the key would be there twice.
   * </ol>
   */
  @ParameterizedTest
  @EnumSource(
      value = Conditional.class,
      names = {"MERGE_COPY_ON_WRITE", "MERGE_ON_READ"})
  void aStatementIsValidatedUntilTheSwap(Conditional write) {
    assumeFalse(Lake.isRest(), "what happens between is inside the JDBC catalog");
    AtomicBoolean once = new AtomicBoolean(true);
    TxnHandle late =
        lateBy(
            () -> {
              if (once.getAndSet(false)) {
                append(auto(), 1);
              }
            });
    Table table = late.catalog(() -> null).loadTable(A);
    long snapshot = table.currentSnapshot().snapshotId();
    assertThatThrownBy(
            () -> {
              if (write == Conditional.MERGE_ON_READ) {
                table
                    .newRowDelta()
                    .addRows(file(table, 1))
                    .validateFromSnapshot(snapshot)
                    .conflictDetectionFilter(Expressions.alwaysTrue())
                    .validateNoConflictingDataFiles()
                    .validateNoConflictingDeleteFiles()
                    .commit();
              } else {
                table
                    .newOverwrite()
                    .addFile(file(table, 1))
                    .validateFromSnapshot(snapshot)
                    .conflictDetectionFilter(Expressions.alwaysTrue())
                    .validateNoConflictingData()
                    .validateNoConflictingDeletes()
                    .commit();
              }
            })
        .isInstanceOf(ValidationException.class)
        .hasMessageContaining("conflicting files");
    assertThat(once).isFalse();
    assertThat(lake.txnIds("shop.a")).containsExactly(1L, 9L);
  }

  /** The comment of the other entry, also of one that was archived, in one line that is cut. */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aConflictSaysWhoWon(boolean tidied) {
    Transaction txn = handle.begin(BeginOptions.defaults());
    overwrite(handle.catalog(() -> txn).loadTable(A), 1);
    Transaction first = handle.begin(BeginOptions.defaults());
    first.comment("nightly `load`\n\u001b]52;c;x\u0007\u202e" + "x".repeat(300));
    append(handle.catalog(() -> first).loadTable(A), 2);
    first.commit();
    if (tidied) {
      handle.tidy();
    }
    assertThatThrownBy(txn::commit)
        .isInstanceOfSatisfying(
            TxnException.class,
            e -> {
              String comment = e.parameters().get("otherComment");
              assertThat(comment)
                  .hasSize(200)
                  .startsWith("nightly 'load'\\n\\x1b]52;c;x\\x07\\u202exxx")
                  .endsWith("xxx...");
              assertThat(e).hasMessageContaining(" other_comment=`" + comment + "`");
              assertThat(e.parameters()).containsEntry("otherTxnId", first.id());
              assertThat(e.parameters().get("otherEngine")).isEqualTo(Engine.name());
            });
  }

  /**
   * A table is found under another name, too.
   *
   * <ol>
   *   <li>T reads {@code a}, and writes {@code b}.
   *   <li>A stranger renames {@code a} to {@code z}.
   *   <li>Somebody writes {@code z}.
   * </ol>
   */
  @Test
  void whatAStrangerRenamedIsKnownByItsUuid() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    assertThat(ids(handle.catalog(() -> txn).loadTable(A))).containsExactly(9L);
    append(handle.catalog(() -> txn).loadTable(id("shop.b")), 1);
    lake.catalog().renameTable(A, id("shop.z"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.z")), 2);
    assertThatThrownBy(txn::commit).hasMessageContaining("a table that it read was written");
  }

  /**
   * A table is known under every name it was found under.
   *
   * <ol>
   *   <li>T finds {@code a} and does not read it; a stranger renames it to {@code y}, which T reads
   *       (or writes by what it holds).
   *   <li>It is renamed to {@code z}, where somebody writes it.
   * </ol>
   */
  @ParameterizedTest
  @ValueSource(booleans = {false, true})
  void aTableIsKnownUnderEachOfItsNames(boolean conditional) {
    Isolation level = conditional ? Isolation.SNAPSHOT : Isolation.SERIALIZABLE;
    Transaction txn = handle.begin(BeginOptions.defaults().withIsolation(level));
    TxnCatalog inside = handle.catalog(() -> txn);
    ((TxnTable) inside.loadTable(A)).noteMetadataRead(txn);
    lake.catalog().renameTable(A, id("shop.y"));
    if (conditional) {
      changeNothing(txn, inside.loadTable(id("shop.y")));
    } else {
      assertThat(ids(inside.loadTable(id("shop.y")))).containsExactly(9L);
    }
    append(inside.loadTable(id("shop.b")), 1);
    lake.catalog().renameTable(id("shop.y"), id("shop.z"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.z")), 2);
    assertThatThrownBy(txn::commit)
        .hasMessageContaining(conditional ? "looked through for rows to change" : "(filter true");
  }

  /** What it wrote, a stranger has renamed, and somebody has written there. */
  @Test
  void aTableThatWasWrittenIsKnownByItsUuid() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    append(handle.catalog(() -> txn).loadTable(A), 1);
    lake.catalog().renameTable(A, id("shop.z"));
    append(lake.open().catalog(() -> null).loadTable(id("shop.z")), 2);
    assertThatThrownBy(txn::commit).hasMessageContaining("was renamed and written");
  }

  /** Two that look at the schema of a table and append to it both commit, by table at SNAPSHOT. */
  @ParameterizedTest
  @EnumSource(Isolation.class)
  void aLookAtTheMetadataIsNoReadOfRows(Isolation level) {
    for (String conflicts : List.of("file", "table")) {
      TxnHandle own = lake.open(Map.of("txns.conflicts", conflicts));
      Transaction txn = own.begin(BeginOptions.defaults().withIsolation(level));
      Table a = own.catalog(() -> txn).loadTable(A);
      ((TxnTable) a).noteMetadataRead(txn);
      append(a, 1);
      append(auto(), 2);
      if (level == Isolation.SNAPSHOT || conflicts.equals("file")) {
        txn.commit();
        assertThat(lake.txnIds("shop.a")).contains(1L, 2L, 9L);
      } else {
        assertThatThrownBy(txn::commit).hasMessageContaining("whose metadata it read was written");
      }
    }
  }

  /** Its rows were made for the table as it was described. */
  @Test
  void aLookAtTheMetadataClashesWithAlter() {
    BeginOptions options = BeginOptions.defaults().withIsolation(Isolation.SNAPSHOT);
    Transaction txn = handle.begin(options);
    Table a = handle.catalog(() -> txn).loadTable(A);
    ((TxnTable) a).noteMetadataRead(txn);
    append(a, 1);
    auto().updateProperties().set("k", "v").commit();
    assertThatThrownBy(txn::commit).hasMessageContaining("was altered");
  }

  /** In some catalogs {@code Shop} and {@code shop} are one namespace. */
  @Test
  void aNamespaceThatWasListedIsOneInAnyCase() {
    ((SupportsNamespaces) lake.catalog()).createNamespace(Namespace.of("Shop"));
    Transaction txn = handle.begin(BeginOptions.defaults());
    assertThat(handle.catalog(() -> txn).listTables(Namespace.of("Shop"))).isEmpty();
    append(handle.catalog(() -> txn).loadTable(id("shop.b")), 1);
    handle.catalog(() -> null).createTable(id("shop.new"), Lake.SCHEMA);
    assertThatThrownBy(txn::commit).hasMessageContaining("a namespace that it listed");
  }

  /** In some catalogs {@code New} and {@code new} are one name. */
  @Test
  void aNameFoundAbsentIsOneInAnyCase() {
    Transaction txn = handle.begin(BeginOptions.defaults());
    assertThat(handle.catalog(() -> txn).tableExists(id("shop.New"))).isFalse();
    append(handle.catalog(() -> txn).loadTable(id("shop.b")), 1);
    handle.catalog(() -> null).createTable(id("shop.new"), Lake.SCHEMA);
    assertThatThrownBy(txn::commit).hasMessageContaining("found absent");
  }
}
