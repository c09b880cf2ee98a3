package io.txns.iceberg.table;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.meta.FreeIds;
import io.txns.iceberg.meta.PartitionNames;
import io.txns.iceberg.meta.Removals;
import io.txns.iceberg.meta.SnapshotEdit;
import io.txns.iceberg.meta.SpecIds;
import io.txns.iceberg.meta.Timestamps;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.iceberg.exceptions.ValidationException;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/**
 * One logged change laid over a table's metadata, or the table that it creates; pure.
 *
 * <p>{@link Overlay} lays changes over what readers load, an applier commits them: one function
 * serves both, so that a reader sees what will be there.
 */
public final class Replay {
  /**
   * What a staged snapshot takes, because the table's numbers have moved on.
   *
   * @param formatVersion the table's
   * @param firstRowId its own, or the table's next where that is greater; format 3 only, otherwise
   *     null
   */
  public record Numbers(int formatVersion, long sequenceNumber, Long firstRowId) {}

  /** How a staged snapshot takes new numbers. */
  public interface Renumber {
    /**
     * The same snapshot with its numbers and, where the caller writes files, a list of its own.
     *
     * @param parent as the table has it, or will have it; null where there is none
     */
    Snapshot renumbered(Snapshot parent, Snapshot staged, Numbers numbers);

    /** Whether rows that a snapshot of format 3 has of its parent have other ids there by now. */
    default boolean hasOtherRowIds(Snapshot parent, Snapshot staged) {
      return false;
    }

    /** Readers change the snapshot's fields only; the rows are the same. */
    Renumber IN_MEMORY =
        (parent, staged, numbers) -> {
          SnapshotEdit edit = SnapshotEdit.of(staged).sequenceNumber(numbers.sequenceNumber());
          if (numbers.firstRowId() != null) {
            edit.rows(numbers.firstRowId(), staged.addedRows() == null ? 0 : staged.addedRows());
          }
          return edit.build();
        };
  }

  private Replay() {}

  /**
   * {@code base} plus one logged change, with {@code txns.applied} set to its {@code commit_ts}.
   *
   * <p>{@code main} is put on the logged run wherever a stranger left it; see {@link
   * ForeignBranches}.
   *
   * <p>What the change requires of the table its caller asks.
   *
   * @param unmet what it requires, by the table's ids, and does not find: the table is to go by
   *     that again
   * @param branches what else changes in the same swap. It comes first: a builder that adds no
   *     snapshot stamps what it makes with the clock, which may be behind the table.
   * @throws TxnException Quarantined when the table takes no such updates, or lacks what the change
   *     stands on
   */
  private static TableMetadata replay(
      TableMetadata base,
      LoggedChange logged,
      UpdateTableRequest request,
      long nowMs,
      Renumber renumber,
      Set<UpdateRequirement> unmet,
      Consumer<TableMetadata.Builder> branches) {
    NotItsOwn.refuse(base, logged, request);
    TableIdentifier table = logged.change().table();
    Long from = logged.change().fromSnapshotId();
    UpdateTableRequest here = byIdsOf(base, logged, request);
    try {
      if (from != null && base.snapshot(from) == null) {
        throw TxnException.incomplete(
            table,
            "the table lacks the snapshot that a logged change stands on: it has been expired, or"
                + " the table was set back outside the protocol");
      }
      TableMetadata.Builder builder = TableMetadata.buildFrom(base);
      branches.accept(builder);
      FittingDefaults standing =
          FittingDefaults.of(base)
              .required(base, unmet, here.updates())
              .fitting(base, here.updates());
      standing.set(builder, base, here.updates());
      Removals removals =
          new Removals(
              standing.schemaId(), standing.specId(), ForeignBranches.open(base, here.updates()));
      List<MetadataUpdate> possible =
          here.updates().stream().map(removals::possible).filter(Objects::nonNull).toList();
      SpecIds.refuseOthers(base, possible);
      apply(builder, base, possible, nowMs, renumber);
      builder.setProperties(Map.of(TableMark.APPLIED, Long.toString(logged.commitTs())));
      return SpecIds.checked(PartitionNames.checked(base, built(builder)), request.updates());
    } catch (CommitFailedException | ValidationException | IllegalArgumentException e) {
      throw unfit(logged, e.getMessage());
    }
  }

  /**
   * The same for an applier: what strangers made impossible is not for him to put right.
   *
   * @param repaired whether a repair is logged after it: that puts it right
   * @throws TxnException Quarantined when a requirement other than main's place does not hold
   */
  public static TableMetadata applied(
      TableMetadata base,
      LoggedChange logged,
      UpdateTableRequest request,
      long nowMs,
      Renumber renumber,
      boolean repaired,
      Consumer<TableMetadata.Builder> branches) {
    UpdateTableRequest here = byIdsOf(base, logged, request);
    Map<UpdateRequirement, String> unmet = Rewound.unmet(base, here.requirements());
    Optional<String> impossible =
        unmet.isEmpty() ? FittingDefaults.misfit(base, here.updates()) : Optional.of(reason(unmet));
    if (impossible.isPresent() && !repaired) {
      throw unfit(logged, impossible.get());
    }
    TableMetadata replayed =
        replay(base, logged, request, nowMs, renumber, unmet.keySet(), branches);
    Optional<String> why = repaired ? FittingDefaults.unloadable(replayed) : Optional.empty();
    if (why.isPresent()) {
      throw unfit(logged, why.get());
    }
    return replayed;
  }

  /** The same in memory, for readers and for who checks that a change can be applied. */
  public static TableMetadata replay(
      TableMetadata base, LoggedChange logged, UpdateTableRequest request, long nowMs) {
    return replay(base, logged, request, nowMs, Renumber.IN_MEMORY, Set.of(), builder -> {});
  }

  static UpdateTableRequest byIdsOf(
      TableMetadata base, LoggedChange logged, UpdateTableRequest request) {
    try {
      return FreeIds.in(base, request, logged.change().fromSnapshotId());
    } catch (ValidationException | IllegalArgumentException e) {
      throw unfit(logged, e.getMessage());
    }
  }

  static String reason(Map<UpdateRequirement, String> unmet) {
    return unmet.values().iterator().next();
  }

  /** Whether the request of a change makes its table. */
  public static boolean creates(UpdateTableRequest request) {
    return request.requirements().stream()
        .anyMatch(UpdateRequirement.AssertTableDoesNotExist.class::isInstance);
  }

  /** A change that does not fit its table any more, or never did: nobody can tell. */
  static TxnException unfit(LoggedChange logged, String reason) {
    TableIdentifier table = logged.change().table();
    return TxnException.quarantined(
        table,
        misfit(reason),
        String.format(
            "end it with CALL system.repair(table => '%s', action => 'adopt') or 'reject'; where"
                + " both are refused, `txns recover --void %d` takes the entry out of the log, then"
                + " 'adopt' takes the table as it stands; look who has written the commit table:"
                + " whoever may is trusted",
            table, logged.commitTs()));
  }

  static String misfit(String reason) {
    return String.format("a logged change does not fit the table any more (%s)", reason);
  }

  /**
   * A new table from the change that creates it.
   *
   * @throws TxnException CorruptLog where the change makes none, of which no table is the reason
   */
  public static TableMetadata create(LoggedChange logged, UpdateTableRequest request, long nowMs) {
    int formatVersion =
        request.updates().stream()
            .filter(MetadataUpdate.UpgradeFormatVersion.class::isInstance)
            .map(update -> ((MetadataUpdate.UpgradeFormatVersion) update).formatVersion())
            .reduce(1, Math::max);
    NotItsOwn.refuse(null, logged, request);
    try {
      TableMetadata.Builder builder = TableMetadata.buildFromEmpty(formatVersion);
      List<MetadataUpdate> updates = FreeIds.in(null, request.updates());
      apply(builder, null, updates, nowMs, Renumber.IN_MEMORY);
      builder.setProperties(Map.of(TableMark.APPLIED, Long.toString(logged.commitTs())));
      TableMetadata made = built(builder);
      ValidationException.check(made.currentSnapshot() != null, "it has no snapshot on main");
      return made;
    } catch (ValidationException | IllegalArgumentException e) {
      throw TxnException.corruptLog(
          String.format(
              "a logged change creates no table; table=`%s` txn=`%s`: %s",
              logged.change().table(), logged.entry().txnId(), e.getMessage()));
    }
  }

  private static void apply(
      TableMetadata.Builder builder,
      TableMetadata base,
      List<MetadataUpdate> updates,
      long nowMs,
      Renumber renumber) {
    Fitting fitting = new Fitting(base, renumber);
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.AddSnapshot add) {
        Snapshot snapshot = fitting.fitted(add.snapshot());
        long timestampMs = Timestamps.acceptableMs(base, snapshot.timestampMillis(), nowMs);
        if (timestampMs != snapshot.timestampMillis()) {
          snapshot = SnapshotEdit.of(snapshot).timestampMs(timestampMs).build();
        }
        Snapshot added = snapshot;
        taken(() -> builder.addSnapshot(added));
      } else {
        if (update instanceof MetadataUpdate.UpgradeFormatVersion upgrade) {
          fitting.upgradeTo(upgrade.formatVersion());
        }
        taken(() -> update.applyTo(builder));
      }
    }
  }

  private static TableMetadata built(TableMetadata.Builder builder) {
    AtomicReference<TableMetadata> made = new AtomicReference<>();
    taken(() -> made.set(builder.build()));
    return made.get();
  }

  /** What Iceberg says of updates that nobody meant is of many kinds. */
  private static void taken(Runnable update) {
    try {
      update.run();
    } catch (CommitFailedException | ValidationException | IllegalArgumentException e) {
      throw e;
    } catch (RuntimeException e) {
      throw new ValidationException(e, "%s", e.getMessage());
    }
  }

  /** The numbers of a table while snapshots are added to it. */
  private static final class Fitting {
    private final TableMetadata base;
    private final Renumber renumber;
    private final Map<Long, Snapshot> added = new HashMap<>();
    private int formatVersion;
    private long sequenceNumber;
    private long nextRowId;

    private Fitting(TableMetadata base, Renumber renumber) {
      this.base = base;
      this.renumber = renumber;
      this.formatVersion = base == null ? 1 : base.formatVersion();
      this.sequenceNumber = base == null ? 0 : base.lastSequenceNumber();
      this.nextRowId = base == null ? 0 : base.nextRowId();
    }

    private void upgradeTo(int version) {
      this.formatVersion = Math.max(formatVersion, version);
    }

    /** A staged snapshot as it was, or with numbers that the table takes. */
    private Snapshot fitted(Snapshot staged) {
      Snapshot snapshot = staged;
      boolean hasIds = formatVersion >= 3;
      Snapshot parent = base == null ? null : parent(staged);
      if (base != null
          && (isStale(staged) || (hasIds && renumber.hasOtherRowIds(parent, staged)))) {
        long own = staged.firstRowId() == null ? 0 : staged.firstRowId();
        Numbers numbers =
            new Numbers(
                formatVersion, sequenceNumber + 1, hasIds ? (Long) Math.max(nextRowId, own) : null);
        snapshot = renumber.renumbered(parent, staged, numbers);
      }
      snapshot = withoutGap(snapshot);
      added.put(snapshot.snapshotId(), snapshot);
      sequenceNumber = snapshot.sequenceNumber();
      nextRowId += snapshot.addedRows() == null ? 0 : snapshot.addedRows();
      return snapshot;
    }

    /** A table's next row id grows by what a snapshot added: that spans ids that nobody took. */
    private Snapshot withoutGap(Snapshot snapshot) {
      Long first = snapshot.firstRowId();
      return first == null || base == null || first <= nextRowId
          ? snapshot
          : SnapshotEdit.of(snapshot).rows(first, first - nextRowId + snapshot.addedRows()).build();
    }

    /** A table that was upgraded since has ids for the rows of what was staged without any. */
    private boolean isStale(Snapshot staged) {
      Long firstRowId = staged.firstRowId();
      return (formatVersion > 1 && staged.sequenceNumber() <= sequenceNumber)
          || (formatVersion >= 3 && (firstRowId == null || firstRowId < nextRowId));
    }

    private Snapshot parent(Snapshot staged) {
      Long id = staged.parentId();
      return id == null || added.containsKey(id) ? added.get(id) : base.snapshot(id);
    }
  }
}
