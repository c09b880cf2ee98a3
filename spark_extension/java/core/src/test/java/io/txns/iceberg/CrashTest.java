package io.txns.iceberg;

import static io.txns.iceberg.Lake.id;
import static io.txns.iceberg.Lake.ids;
import static org.assertj.core.api.Assertions.assertThat;

import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Random;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * A process dies at any of its writes: while staging, around the swap, between two applies, during
 * tidy. Nothing is lost, nothing doubled, no table torn.
 *
 * <p>{@code -Dtxns.crash.all=true} dies at every call; otherwise at a random one in thirty, whose
 * seed is printed. {@code make test-slow} dies at every call.
 */
class CrashTest {
  private static final int ONE_IN = 30;

  @TempDir Path folder;

  @Test
  void deathAtAnyCallLosesNothingAndDoublesNothing() throws Exception {
    Run whole = run(Integer.MAX_VALUE);
    assertThat(whole.exit()).isZero();
    assertThat(whole.acknowledged()).isEqualTo(CrashWorkload.TRANSACTIONS);
    check(whole);
    long seed = Long.getLong("txns.crash.seed", System.nanoTime());
    System.out.println("txns.crash.seed=" + seed + " calls=" + whole.calls());
    Random random = new Random(seed);
    boolean all = Boolean.getBoolean("txns.crash.all");
    List<Integer> deaths =
        IntStream.rangeClosed(1, whole.calls())
            .filter(call -> all || random.nextInt(ONE_IN) == 0)
            .boxed()
            .toList();
    for (int call : deaths) {
      Run run = run(call);
      assertThat(run.exit()).as("died at call %d", call).isIn(137, 0);
      check(run);
    }
    System.out.println("deaths=" + deaths.size());
  }

  private record Run(Path lake, int exit, int acknowledged, int calls) {}

  private Run run(int call) throws Exception {
    Path lake = Files.createDirectory(folder.resolve("at-" + call));
    Lake first = new Lake(lake);
    first.create(first.open(), "shop.a", "shop.b");
    Process process =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-Dlog4j2.level=error",
                "-cp",
                System.getProperty("java.class.path"),
                CrashWorkload.class.getName(),
                lake.toString(),
                Integer.toString(call))
            .redirectError(ProcessBuilder.Redirect.DISCARD)
            .start();
    String out = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    assertThat(process.waitFor(2, TimeUnit.MINUTES)).isTrue();
    int acknowledged = (int) out.lines().filter(line -> line.startsWith("committed ")).count();
    int calls =
        out.lines()
            .filter(line -> line.startsWith("calls "))
            .mapToInt(line -> Integer.parseInt(line.substring(6)))
            .sum();
    return new Run(lake, process.exitValue(), acknowledged, calls);
  }

  private void check(Run run) {
    Lake lake = new Lake(run.lake());
    List<Long> a = lake.txnIds("shop.a");
    assertThat(a).hasSizeBetween(run.acknowledged(), run.acknowledged() + 1);
    List<Long> expected = LongStream.rangeClosed(1, a.size()).boxed().toList();
    checkTables(lake, expected, false);
    TxnHandle next = lake.open();
    assertThat(next.apply()).isZero();
    checkTables(lake, expected, true);
    assertThat(next.apply()).isZero();
    next.tidy();
    checkTables(lake, expected, true);
    long k = a.size() + 1;
    CrashWorkload.run(next, k);
    checkTables(lake, LongStream.rangeClosed(1, k).boxed().toList(), true);
    assertThat(next.transactions())
        .filteredOn(row -> "commit".equals(row.kind()) && "shop.a".equals(row.table()))
        .hasSize((int) k);
  }

  private void checkTables(Lake lake, List<Long> expected, boolean applied) {
    TxnCatalog tables = lake.open().catalog(() -> null);
    assertThat(ids(tables.loadTable(id("shop.a")))).isEqualTo(expected);
    assertThat(ids(tables.loadTable(id("shop.b")))).isEqualTo(expected);
    for (long k : expected) {
      assertThat(ids(tables.loadTable(id("shop.c" + k)))).containsExactly(k);
    }
    if (applied) {
      assertThat(lake.plainIds("shop.a")).isEqualTo(expected);
      assertThat(lake.plainIds("shop.b")).isEqualTo(expected);
    }
  }
}
