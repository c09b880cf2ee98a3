package io.txns.iceberg.catalog;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeginOptions;
import io.txns.iceberg.Days;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnHandle;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.function.Predicate;
import java.util.stream.Collectors;
import java.util.stream.LongStream;
import java.util.stream.Stream;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.DeleteFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.OverwriteFiles;
import org.apache.iceberg.RewriteFiles;
import org.apache.iceberg.RowDelta;
import org.apache.iceberg.Table;
import org.apache.iceberg.TableUtil;
import org.apache.iceberg.expressions.Expression;
import org.apache.iceberg.expressions.Expressions;
import org.apache.iceberg.io.CloseableIterable;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;
import org.junit.jupiter.api.io.TempDir;

/**
 * Pairs of random transactions on one table, against brute force over rows: where the second one
 * commits, it has seen and left what it would have if it had run after the first one.
 *
 * <p>Half of them are of several days; the others mark rows of the files of one, with position
 * deletes or deletion vectors. {@code -Dtxns.test.pairs=n} runs n of them, {@code
 * -Dtxns.test.seed=s} from one.
 */
@Timeout(3600)
class PairsTest {
  private static final int PAIRS = Integer.getInteger("txns.test.pairs", 16);
  private static final int DAYS = 3;

  @TempDir Path folder;

  private record Row(long id, long day) {}

  private record Filter(Expression expression, Predicate<Row> holds) {
    static Filter random(Random random, int days) {
      long day = 1 + random.nextInt(days);
      long id = 10 * day + random.nextInt(days == 1 ? 10 : 4);
      Filter ofDay = new Filter(Days.day(day), row -> row.day() == day);
      Filter ofId = new Filter(Expressions.equal("id", id), row -> row.id() == id);
      Filter below = new Filter(Expressions.lessThan("id", id), row -> row.id() < id);
      return switch (days == 1 ? 1 + random.nextInt(6) : random.nextInt(7)) {
        case 0 -> new Filter(Expressions.alwaysTrue(), row -> true);
        case 1 -> ofId;
        case 2 -> below;
        case 3 -> ofDay.and(below);
        case 4 -> ofDay.and(ofId);
        default -> days == 1 ? ofDay.and(ofId) : ofDay;
      };
    }

    Filter and(Filter other) {
      return new Filter(Expressions.and(expression, other.expression), holds.and(other.holds));
    }
  }

  /** What a statement does; what it has seen it gives. */
  private interface Statement {
    List<Row> onTable(Table table, Files files);

    List<Row> onRows(List<Row> rows);
  }

  /** What is in the files that were written. */
  private static final class Files {
    private final Map<String, List<Row>> rows = new HashMap<>();

    /** By delete file, the first rows of files that it marks: all do. */
    private final Map<String, Set<String>> marked = new HashMap<>();

    DataFile write(Table table, long day, List<Long> ids) {
      DataFile file = Days.file(table, day, ids.stream().mapToLong(Long::longValue).toArray());
      rows.put(file.location(), ids.stream().map(id -> new Row(id, day)).toList());
      return file;
    }

    /** Delete files of the first rows of files: deletion vectors where the format has them. */
    List<DeleteFile> mark(Table table, long day, List<DataFile> files) {
      List<DeleteFile> marks =
          TableUtil.formatVersion(table) > 2
              ? Days.vectors(table, files)
              : List.of(Days.marks(table, day, files));
      Set<String> paths = files.stream().map(DataFile::location).collect(Collectors.toSet());
      marks.forEach(each -> marked.put(each.location(), paths));
      return marks;
    }

    /** The rows of a file that are there. */
    List<Row> of(FileScanTask task) {
      String path = task.file().location();
      boolean first = task.deletes().stream().anyMatch(each -> marks(each, path));
      List<Row> all = rows.get(path);
      return first ? all.subList(1, all.size()) : all;
    }

    private boolean marks(DeleteFile deletes, String path) {
      return marked.getOrDefault(deletes.location(), Set.of()).contains(path);
    }
  }

  private static List<FileScanTask> tasks(Table table, Expression filter) {
    List<FileScanTask> found = new ArrayList<>();
    try (CloseableIterable<FileScanTask> tasks = table.newScan().filter(filter).planFiles()) {
      tasks.forEach(found::add);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return found;
  }

  private static long day(FileScanTask task) {
    return task.file().partition().get(0, Long.class);
  }

  private static List<Row> matching(List<Row> rows, Filter filter) {
    return rows.stream().filter(filter.holds()).sorted(PairsTest::compare).toList();
  }

  private static int compare(Row one, Row other) {
    int byDay = Long.compare(one.day(), other.day());
    return byDay == 0 ? Long.compare(one.id(), other.id()) : byDay;
  }

  private static List<Row> read(Table table, Files files, Filter filter) {
    Stream<Row> rows =
        tasks(table, filter.expression()).stream().flatMap(t -> files.of(t).stream());
    return matching(rows.toList(), filter);
  }

  private record Read(Filter filter) implements Statement {
    @Override
    public List<Row> onTable(Table table, Files files) {
      return read(table, files, filter);
    }

    @Override
    public List<Row> onRows(List<Row> rows) {
      return matching(rows, filter);
    }
  }

  private record Append(long day, List<Long> ids) implements Statement {
    @Override
    public List<Row> onTable(Table table, Files files) {
      table.newAppend().appendFile(files.write(table, day, ids)).commit();
      return List.of();
    }

    @Override
    public List<Row> onRows(List<Row> rows) {
      ids.forEach(id -> rows.add(new Row(id, day)));
      return List.of();
    }
  }

  /** One more row, whose id is how many it has read. */
  private record Count(Filter filter, long day) implements Statement {
    @Override
    public List<Row> onTable(Table table, Files files) {
      List<Row> read = read(table, files, filter);
      return new Append(day, List.of(1000L + read.size())).onTable(table, files);
    }

    @Override
    public List<Row> onRows(List<Row> rows) {
      return new Append(day, List.of(1000L + matching(rows, filter).size())).onRows(rows);
    }
  }

  /** Rows are deleted, and the others of their files written again. */
  private record Rewrite(Filter filter) implements Statement {
    @Override
    public List<Row> onTable(Table table, Files files) {
      OverwriteFiles overwrite = table.newOverwrite().conflictDetectionFilter(filter.expression());
      for (FileScanTask task : tasks(table, filter.expression())) {
        List<Row> rows = files.of(task);
        if (rows.stream().anyMatch(filter.holds())) {
          overwrite.deleteFile(task.file());
          List<Long> left = rows.stream().filter(filter.holds().negate()).map(Row::id).toList();
          if (!left.isEmpty()) {
            overwrite.addFile(files.write(table, day(task), left));
          }
        }
      }
      overwrite.commit();
      return List.of();
    }

    @Override
    public List<Row> onRows(List<Row> rows) {
      rows.removeIf(filter.holds());
      return List.of();
    }
  }

  /** The first rows of files are marked where they match, or replaced by others. */
  private record Mark(Filter filter, boolean together, long moved) implements Statement {
    @Override
    public List<Row> onTable(Table table, Files files) {
      Map<Long, List<DataFile>> marked = new HashMap<>();
      RowDelta delta = table.newRowDelta().conflictDetectionFilter(filter.expression());
      List<Row> seen = new ArrayList<>();
      for (FileScanTask task : tasks(table, filter.expression())) {
        List<Row> all = files.rows.get(task.file().location());
        boolean first = files.of(task).size() == all.size() && filter.holds().test(all.get(0));
        if (first) {
          seen.add(all.get(0));
          marked.computeIfAbsent(day(task), day -> new ArrayList<>()).add(task.file());
          if (moved > 0) {
            delta.addRows(files.write(table, day(task), List.of(all.get(0).id() + moved)));
          }
        }
      }
      marked.forEach(
          (day, some) -> {
            if (together) {
              files.mark(table, day, some).forEach(delta::addDeletes);
            } else {
              some.stream()
                  .flatMap(one -> files.mark(table, day, List.of(one)).stream())
                  .forEach(delta::addDeletes);
            }
          });
      delta.commit();
      seen.sort(PairsTest::compare);
      return seen;
    }

    /** Which row is the first of its file rows do not tell: a transaction says which it was. */
    @Override
    public List<Row> onRows(List<Row> rows) {
      throw new UnsupportedOperationException();
    }

    List<Row> onRows(List<Row> rows, List<Row> seen) {
      for (Row row : seen) {
        if (!rows.remove(row)) {
          return List.of(new Row(-1, -1)); // it is not there any more
        }
        if (moved > 0) {
          rows.add(new Row(row.id() + moved, row.day()));
        }
      }
      return seen;
    }
  }

  private enum Kind {
    DELETE,
    OVERWRITE,
    REPLACE
  }

  /** A day's rows go, and others may come. */
  private record OfDay(Kind kind, long day, List<Long> ids) implements Statement {
    @Override
    public List<Row> onTable(Table table, Files files) {
      switch (kind) {
        case DELETE -> table.newDelete().deleteFromRowFilter(Days.day(day)).commit();
        case OVERWRITE ->
            table
                .newOverwrite()
                .overwriteByRowFilter(Days.day(day))
                .addFile(files.write(table, day, ids))
                .commit();
        default -> table.newReplacePartitions().addFile(files.write(table, day, ids)).commit();
      }
      return List.of();
    }

    @Override
    public List<Row> onRows(List<Row> rows) {
      rows.removeIf(row -> row.day() == day);
      return kind == Kind.DELETE ? List.of() : new Append(day, ids).onRows(rows);
    }
  }

  private static Statement random(Random random, int days, int number) {
    long day = 1 + random.nextInt(days);
    Filter filter = Filter.random(random, days);
    List<Long> ids = List.of(10 * day + random.nextInt(4), 10 * day + 4L + number);
    if (days == 1 && random.nextInt(4) > 0) {
      return new Mark(filter, random.nextBoolean(), random.nextInt(2) * 100 * (number + 1));
    }
    return switch (random.nextInt(10)) {
      case 0, 1 -> new Read(filter);
      case 2 -> new Append(day, ids);
      case 3 -> new Count(filter, day);
      case 4, 5 -> new Rewrite(filter);
      case 6 -> new Mark(filter, random.nextBoolean(), 0);
      case 7 -> new Mark(filter, random.nextBoolean(), 100 * (number + 1));
      default -> new OfDay(Kind.values()[random.nextInt(3)], day, ids);
    };
  }

  private static List<Statement> program(Random random, int days, int number) {
    int most = days > 1 ? 3 : random.nextInt(4) == 0 ? 2 : 1;
    return Stream.generate(() -> random(random, days, number))
        .limit(1 + random.nextInt(most))
        .toList();
  }

  /** What a program saw of a table, statement by statement. */
  private static List<List<Row>> onTable(List<Statement> program, Table table, Files files) {
    return program.stream().map(each -> each.onTable(table, files)).toList();
  }

  /** What it would have seen of rows, which it changes. */
  private static List<List<Row>> onRows(
      List<Statement> program, List<Row> rows, List<List<Row>> seen) {
    List<List<Row>> all = new ArrayList<>();
    for (int at = 0; at < program.size(); at++) {
      all.add(
          program.get(at) instanceof Mark mark
              ? mark.onRows(rows, seen.get(at))
              : program.get(at).onRows(rows));
    }
    return all;
  }

  private static boolean commits(Transaction txn) {
    try {
      txn.commit();
      return true;
    } catch (TxnException e) {
      assertThat(e.sqlState()).isEqualTo("40001");
      return false;
    }
  }

  /** The same rows of a day in one file. */
  private static void compact(Table table, Files files, long day) {
    RewriteFiles rewrite = table.newRewrite();
    List<Long> ids = new ArrayList<>();
    for (FileScanTask task : tasks(table, Days.day(day))) {
      rewrite.deleteFile(task.file());
      files.of(task).forEach(row -> ids.add(row.id()));
    }
    if (!ids.isEmpty()) {
      rewrite.addFile(files.write(table, day, ids)).commit();
    }
  }

  /** What became of pairs: of those that were refused, how many could have stood. */
  private static final class Tally {
    private int committed;
    private int conflicts;
    private int falseConflicts;

    @Override
    public String toString() {
      return String.format(
          "pairs=%d committed=%d conflicts=%d false=%d",
          committed + conflicts + falseConflicts, committed, conflicts, falseConflicts);
    }
  }

  /** Two transactions that began on one state. */
  private record Begun(
      List<Row> rows, List<Statement> program, Transaction txn, List<List<Row>> seen) {
    static Begun with(
        List<Row> rows, List<Statement> program, Transaction txn, Table table, Files files) {
      return new Begun(rows, program, txn, PairsTest.onTable(program, table, files));
    }

    boolean writes() {
      return program.stream().anyMatch(each -> !(each instanceof Read));
    }

    /** Whether it would have seen, or done, something else on other rows. */
    boolean differsOn(List<Row> others) {
      List<Row> own = new ArrayList<>(rows);
      onRows(program, own, seen);
      List<Row> later = new ArrayList<>(others);
      return !onRows(program, later, seen).equals(seen)
          || !without(own, rows).equals(without(later, others))
          || !without(rows, own).equals(without(others, later));
    }

    private static List<Row> without(List<Row> some, List<Row> others) {
      List<Row> left = new ArrayList<>(some);
      others.forEach(left::remove);
      return matching(left, ALL);
    }
  }

  @Test
  void theSecondOneIsAsIfItCameLater() {
    long first = Long.getLong("txns.test.seed", new Random().nextInt(1_000_000));
    Lake lake = new Lake(folder);
    TxnHandle handle = lake.open();
    Tally all = new Tally();
    Tally ofOneDay = new Tally();
    for (long seed = first; seed < first + PAIRS; seed++) {
      boolean oneDay = seed % 2 == 0;
      pair(lake, handle, seed, oneDay ? 1 : DAYS, oneDay ? ofOneDay : all);
    }
    System.out.println("seed " + first + ", of several days: " + all + "; of one: " + ofOneDay);
    assertThat(all.committed + ofOneDay.committed).as("of " + PAIRS).isBetween(1, PAIRS - 1);
  }

  private void pair(Lake lake, TxnHandle handle, long seed, int days, Tally tally) {
    Random random = new Random(seed);
    String name = "shop.p" + seed;
    Files files = new Files();
    boolean vectors = days == 1 ? random.nextBoolean() : random.nextInt(4) == 0;
    Table plain = Days.create(lake, name, Map.of("format-version", vectors ? "3" : "2"));
    plain.newDelete().deleteFromRowFilter(Expressions.alwaysTrue()).commit();
    for (long day : LongStream.rangeClosed(1, days).toArray()) {
      long most = days == 1 ? 2 + random.nextInt(3) : random.nextInt(2);
      for (long each = 0; each <= most; each++) {
        List<Long> ids = List.of(10 * day + 2 * each, 10 * day + 2 * each + 1);
        plain.newAppend().appendFile(files.write(plain, day, ids)).commit();
      }
    }
    handle.register(Lake.id(name));
    Isolation level = random.nextBoolean() ? Isolation.SNAPSHOT : Isolation.STRICT_SERIALIZABLE;
    BeginOptions options = BeginOptions.defaults().withIsolation(level);
    Transaction first = handle.begin(options);
    Transaction second = handle.begin(options);
    List<Row> rows = current(handle, name, files);
    List<Row> before = List.copyOf(rows);
    Begun one = Begun.with(before, program(random, days, 1), first, in(handle, first, name), files);
    Begun two =
        Begun.with(before, program(random, days, 2), second, in(handle, second, name), files);
    if (random.nextInt(4) == 0) {
      long day = 1 + random.nextInt(days);
      compact(handle.catalog(() -> null).loadTable(Lake.id(name)), files, day);
    }
    String what = "seed " + seed + ", " + level + ": " + one.program() + "; " + two.program();
    if (commits(one.txn())) {
      assertThat(onRows(one.program(), rows, one.seen())).as(what).isEqualTo(one.seen());
    }
    assertThat(current(handle, name, files)).as(what).isEqualTo(matching(rows, ALL));
    if (!commits(two.txn())) {
      if (two.differsOn(rows)) {
        tally.conflicts++;
      } else {
        tally.falseConflicts++;
      }
    } else {
      tally.committed++;
      if (two.writes()) {
        assertThat(onRows(two.program(), rows, two.seen())).as(what).isEqualTo(two.seen());
      }
    }
    assertThat(current(handle, name, files)).as(what).isEqualTo(matching(rows, ALL));
  }

  private static final Filter ALL = new Filter(Expressions.alwaysTrue(), row -> true);

  private static Table in(TxnHandle handle, Transaction txn, String name) {
    return handle.catalog(() -> txn).loadTable(Lake.id(name));
  }

  private static List<Row> current(TxnHandle handle, String name, Files files) {
    Table table = handle.catalog(() -> null).loadTable(Lake.id(name));
    return new ArrayList<>(read(table, files, ALL));
  }
}
