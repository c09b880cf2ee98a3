package io.txns.iceberg.commit;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.meta.FileChanges;
import io.txns.iceberg.meta.FileChanges.HistoryGapException;
import io.txns.iceberg.meta.MarkedFiles;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.Restager;
import io.txns.iceberg.table.Loaded;
import io.txns.iceberg.table.OurSnapshots;
import io.txns.iceberg.table.TableMark;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Function;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.iceberg.ContentFile;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DataOperations;
import org.apache.iceberg.DeleteFile;
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
import org.apache.iceberg.util.ContentFileUtil;

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
  private final Meetings known;

  /** By table and transaction, what of it has met which filter. */
  private final Map<List<Object>, Map<String, Meetings.Meeting>> met = new HashMap<>();

  /**
   * @param others the ids of those whose entries are held against it
   * @param standing gives a table as the head has it that is to be replaced
   * @param atWork is run now and then: it may go on under a lock
   * @param known what was found out before
   */
  FileConflicts(
      ReadSet reads,
      Set<String> others,
      Function<TableIdentifier, Loaded> standing,
      Runnable atWork,
      Meetings known) {
    this.reads = reads;
    this.others = Set.copyOf(others);
    this.standing = standing;
    this.atWork = atWork;
    this.known = known;
  }

  /** Which filter met which file of an entry; empty where none did. */
  Optional<Meetings.Meeting> met(Entry entry, Change change) {
    // By name, too: it may have been read under that alone.
    List<Object> table = List.of(change.uuid(), change.table());
    Map<String, Meetings.Meeting> known = met.computeIfAbsent(table, unused -> meetings(change));
    return Optional.ofNullable(known.getOrDefault(entry.txnId(), known.get(ANYBODY)));
  }

  /** Whether {@link #met} has found something of a table of which nobody knows whose it is. */
  boolean metAnybodys(Entry entry, Change change) {
    Map<String, Meetings.Meeting> known =
        met.getOrDefault(List.of(change.uuid(), change.table()), Map.of());
    return known.containsKey(ANYBODY) && !known.containsKey(entry.txnId());
  }

  private static Map<String, Meetings.Meeting> everything(String words) {
    return Map.of(ANYBODY, new Meetings.Meeting(ANYBODY, words, null));
  }

  private Map<String, Meetings.Meeting> meetings(Change change) {
    Loaded now;
    try {
      now = standing.apply(change.table());
    } catch (NoSuchTableException e) {
      return everything("the table is not there any more");
    }
    TableMetadata base = reads.baseOf(change.uuid());
    if (base == null || !Restager.isSameShape(base, now.metadata())) {
      return everything("the table has another schema or partitioning now");
    }
    List<ReadSet.RowFilter> filters =
        reads.filtersOf(change).stream().map(filter -> filter.within(base)).toList();
    Map<String, Meetings.Meeting> found = new LinkedHashMap<>();
    try {
      Snapshot before = OurSnapshots.lastOnMain(base, now.metadata());
      ofSnapshots(now.real().io(), now.metadata(), before, filters)
          .forEach(each -> found.putIfAbsent(author(each), each));
    } catch (HistoryGapException | NotFoundException e) {
      return everything("its snapshots since have been expired, or main was moved");
    }
    return found;
  }

  private List<Meetings.Meeting> ofSnapshots(
      FileIO io, TableMetadata now, Snapshot before, List<ReadSet.RowFilter> filters)
      throws HistoryGapException {
    String uuid = TableNames.uuid(now);
    List<Look> looks = filters.stream().map(filter -> new Look(now, filter)).toList();
    List<Meetings.Meeting> found = new ArrayList<>();
    List<Marks> marks = new ArrayList<>();
    List<Meetings.Meeting> earlier = List.of();
    Long from = before == null ? null : before.snapshotId();
    for (FileChanges.Step step : FileChanges.since(now, from, io)) {
      Optional<List<Meetings.Meeting>> looked =
          known.of(uuid, filters, step.snapshot().snapshotId());
      if (looked.isPresent()) {
        earlier = looked.get();
        break;
      }
      if (DataOperations.REPLACE.equals(step.snapshot().operation())) {
        continue; // the same rows in other files
      }
      atWork.run();
      FileChanges changes = step.changes().get();
      String author = step.snapshot().summary().getOrDefault(TableMark.SNAPSHOT_TXN_ID, ANYBODY);
      for (Look look : looks) {
        Met met = look.firstMet(changes);
        met.file().ifPresent(path -> found.add(look.meeting(author, path)));
        met.perhaps().forEach(each -> marks.add(new Marks(author, look, each)));
      }
    }
    Set<String> told = found.stream().map(Meetings.Meeting::author).collect(Collectors.toSet());
    marks.removeIf(each -> told.contains(each.author()));
    found.addAll(ofMarks(io, now, before, marks));
    found.addAll(earlier);
    if (now.currentSnapshot() != null) {
      known.found(uuid, filters, now.currentSnapshot().snapshotId(), found);
    }
    return found;
  }

  /** What was marked is looked up, once for all: where it is not found, it may hold anything. */
  private List<Meetings.Meeting> ofMarks(
      FileIO io, TableMetadata now, Snapshot before, List<Marks> marks) {
    if (marks.isEmpty()) {
      return List.of();
    }
    Map<String, DataFile> files =
        MarkedFiles.lookUp(
            io,
            now,
            marks.stream().map(Marks::deletes).toList(),
            Stream.of(now.currentSnapshot(), before).filter(Objects::nonNull).toList(),
            atWork);
    return marks.stream().filter(each -> each.mayMeet(files)).map(Marks::met).toList();
  }

  /** Who made a snapshot, by what it says, if that is one of them: a stranger may say anything. */
  private String author(Meetings.Meeting meeting) {
    return others.contains(meeting.author()) ? meeting.author() : ANYBODY;
  }

  /**
   * What a filter has met of what a snapshot changed.
   *
   * @param file that came or left and may hold, or mark, a row that matches
   * @param perhaps where there is none, delete files that mark one if the data file that each of
   *     them is of may hold one
   */
  private record Met(Optional<String> file, List<DeleteFile> perhaps) {
    static Met with(Optional<? extends ContentFile<?>> file) {
      return new Met(file.map(ContentFile::location), List.of());
    }
  }

  /** What clashes with a filter where the one data file may that it marks rows of. */
  private record Marks(String author, Look look, DeleteFile deletes) {
    Meetings.Meeting met() {
      return look.meeting(author, deletes.location());
    }

    boolean mayMeet(Map<String, DataFile> files) {
      DataFile file = files.get(ContentFileUtil.referencedDataFileLocation(deletes));
      return file == null || look.mayHold(file);
    }
  }

  /** One filter under which rows of a table were read. */
  private static final class Look {
    private final ReadSet.RowFilter filter;
    private final Schema schema;
    private final Map<Integer, PartitionSpec> specs;
    private final Map<Integer, Evaluator> inPartition = new HashMap<>();
    private InclusiveMetricsEvaluator mayHaveValues;

    Look(TableMetadata metadata, ReadSet.RowFilter filter) {
      this.filter = filter;
      this.schema = metadata.schema();
      this.specs = metadata.specsById();
    }

    Meetings.Meeting meeting(String author, String path) {
      String told = new FilterWords(schema).of(filter.expression());
      return new Meetings.Meeting(author, "filter " + told + ", file " + path, filter);
    }

    /** Hold it against what a snapshot changed. */
    Met firstMet(FileChanges changes) {
      try {
        return met(changes);
      } catch (RuntimeException e) { // of a spec whose column is gone, or what nobody can project
        return Met.with(
            Stream.<ContentFile<?>>concat(changes.files().stream(), changes.deletes().stream())
                .findFirst());
      }
    }

    private Met met(FileChanges changes) {
      Optional<DataFile> held = changes.files().stream().filter(this::holds).findFirst();
      if (held.isPresent()) {
        return Met.with(held);
      }
      List<DeleteFile> marks =
          changes.deletes().stream()
              .filter(each -> FileChanges.isGlobal(each, specs) || mayBeInPartition(each))
              .toList();
      Optional<DeleteFile> ofSeveral =
          marks.stream()
              .filter(each -> ContentFileUtil.referencedDataFileLocation(each) == null)
              .findFirst();
      if (ofSeveral.isPresent()) {
        return Met.with(ofSeveral);
      }
      Set<String> passed =
          changes.files().stream().map(ContentFile::location).collect(Collectors.toSet());
      return new Met(
          Optional.empty(),
          marks.stream()
              .filter(each -> !passed.contains(ContentFileUtil.referencedDataFileLocation(each)))
              .toList());
    }

    /** Whether a data file may hold a row that matches. */
    boolean mayHold(DataFile file) {
      try {
        return holds(file);
      } catch (RuntimeException e) { // as above
        return true;
      }
    }

    private boolean holds(DataFile file) {
      if (mayHaveValues == null) {
        mayHaveValues =
            new InclusiveMetricsEvaluator(schema, filter.expression(), filter.caseSensitive());
      }
      return mayBeInPartition(file) && mayHaveValues.eval(file);
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
