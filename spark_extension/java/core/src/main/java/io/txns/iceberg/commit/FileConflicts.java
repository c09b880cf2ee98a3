package io.txns.iceberg.commit;

import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.meta.FileChanges;
import io.txns.iceberg.meta.FileChanges.HistoryGapException;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.Restager;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.TableMark;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Stream;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.expressions.Evaluator;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.InclusiveMetricsEvaluator;
import org.apache.iceberg.expressions.Projections;
import org.apache.iceberg.io.FileIO;

/**
 * Whether what others did to a table meets what a transaction read of it, file by file.
 *
 * <p>Reads are held against the snapshots since, one by one: a row that came, left or changed is in
 * a file that did, and a filter that no such file can match has seen nothing of it.
 */
final class FileConflicts {
  /** Who changed something, where no transaction of the log has. */
  private static final String ANYBODY = "";

  private final ReadSet reads;
  private final Function<TableIdentifier, Loaded> standing;
  private final Set<String> others;
  private final Runnable atWork;

  /** By table and transaction, what of it has met which filter, in words. */
  private final Map<List<Object>, Map<String, String>> met = new HashMap<>();

  /**
   * @param others the ids of those whose entries are held against it
   * @param standing gives a table as the head has it that is to be replaced
   * @param atWork is run now and then: it may go on under a lock
   */
  FileConflicts(
      ReadSet reads,
      Set<String> others,
      Function<TableIdentifier, Loaded> standing,
      Runnable atWork) {
    this.reads = reads;
    this.others = Set.copyOf(others);
    this.standing = standing;
    this.atWork = atWork;
  }

  /** Which filter met which file of an entry; empty where none did. */
  Optional<String> met(Entry entry, Change change) {
    // By name, too: it may have been read under that alone.
    List<Object> table = List.of(change.uuid(), change.table());
    Map<String, String> known = met.computeIfAbsent(table, unused -> meetings(change));
    String words = known.get(entry.txnId());
    return Optional.ofNullable(words == null ? known.get(ANYBODY) : words);
  }

  private Map<String, String> meetings(Change change) {
    Loaded now;
    try {
      now = standing.apply(change.table());
    } catch (NoSuchTableException e) {
      return Map.of(ANYBODY, "the table is not there any more");
    }
    TableMetadata base = reads.baseOf(change.uuid());
    if (base == null || !Restager.isSameShape(base, now.metadata())) {
      return Map.of(ANYBODY, "the table has another schema or partitioning now");
    }
    Snapshot before = base.currentSnapshot();
    try {
      return ofSnapshots(
          now.real().io(),
          now.metadata(),
          before == null ? null : before.snapshotId(),
          reads.filtersOf(change).stream().map(filter -> filter.within(base)).toList());
    } catch (HistoryGapException | NotFoundException e) {
      return Map.of(ANYBODY, "its snapshots since have been expired, or main was moved");
    }
  }

  private Map<String, String> ofSnapshots(
      FileIO io, TableMetadata now, Long before, List<ReadSet.RowFilter> filters)
      throws HistoryGapException {
    List<Look> looks = filters.stream().map(filter -> new Look(now, filter)).toList();
    Map<String, String> found = new LinkedHashMap<>();
    for (FileChanges.Step step : FileChanges.since(now, before, io)) {
      if (DataOperations.REPLACE.equals(step.snapshot().operation())) {
        continue; // the same rows in other files
      }
      atWork.run();
      FileChanges changes = step.changes().get();
      for (Look look : looks) {
        look.firstMet(changes)
            .ifPresent(path -> found.putIfAbsent(author(step.snapshot()), look.words(path)));
      }
    }
    return found;
  }

  /** Who made a snapshot, by what it says, if that is one of them: a stranger may say anything. */
  private String author(Snapshot snapshot) {
    String said = snapshot.summary().getOrDefault(TableMark.SNAPSHOT_TXN_ID, ANYBODY);
    return others.contains(said) ? said : ANYBODY;
  }

  /** One filter under which rows of a table were read. */
  private static final class Look {
    private final ReadSet.RowFilter filter;
    private final Schema schema;
    private final Map<Integer, PartitionSpec> specs;
    private final Map<Integer, Evaluator> inPartition = new HashMap<>();

    Look(TableMetadata metadata, ReadSet.RowFilter filter) {
      this.filter = filter;
      this.schema = metadata.schema();
      this.specs = metadata.specsById();
    }

    String words(String path) {
      return "filter " + new FilterWords(schema).of(filter.expression()) + ", file " + path;
    }

    /** A file that came or left and may hold, or mark, a row that matches. */
    Optional<String> firstMet(FileChanges changes) {
      try {
        InclusiveMetricsEvaluator mayHold =
            new InclusiveMetricsEvaluator(schema, filter.expression(), filter.caseSensitive());
        return Stream.concat(
                changes.files().stream()
                    .filter(file -> mayBeInPartition(file) && mayHold.eval(file)),
                changes.deletes().stream()
                    .filter(file -> FileChanges.isGlobal(file, specs) || mayBeInPartition(file)))
            .map(file -> ((ContentFile<?>) file).location())
            .findFirst();
      } catch (RuntimeException e) { // of a spec whose column is gone, or what nobody can project
        return Stream.concat(changes.files().stream(), changes.deletes().stream())
            .map(file -> ((ContentFile<?>) file).location())
            .findFirst();
      }
    }

    private boolean mayBeInPartition(ContentFile<?> file) {
      return inPartition.computeIfAbsent(file.specId(), this::evaluator).eval(file.partition());
    }

    private Evaluator evaluator(int specId) {
      PartitionSpec spec = specs.get(specId);
      Expression within =
          Projections.inclusive(spec, filter.caseSensitive()).project(filter.expression());
      return new Evaluator(spec.partitionType(), within, filter.caseSensitive());
    }
  }
}
