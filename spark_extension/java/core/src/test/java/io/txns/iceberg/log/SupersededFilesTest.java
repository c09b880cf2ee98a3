package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.MovedClock;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.FileIO;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What waits for the end of its time, and how much of it. */
class SupersededFilesTest {
  private static final long HOUR_MS = 60 * 60 * 1000L;

  @TempDir Path folder;
  private final FileIO io = new HadoopFileIO(new Configuration());
  private final MovedClock clock = new MovedClock();
  private final CountDownLatch asked = new CountDownLatch(1);

  private String file(String name) throws Exception {
    return Files.writeString(folder.resolve(name), "x").toUri().toString();
  }

  private void waitForGone(String name) throws Exception {
    long deadline = System.currentTimeMillis() + 30_000;
    while (Files.exists(folder.resolve(name)) && System.currentTimeMillis() < deadline) {
      Thread.sleep(5);
    }
    assertThat(folder.resolve(name)).doesNotExist();
  }

  /** Minutes are those of the upper itself: nobody's clock is asked. */
  @ParameterizedTest
  @CsvSource({"0,59999,false", "59999,60000,true", "60000,119999,false", "0,1000000000000,true"})
  void aMinuteEndsBetweenTwoUppers(long upper, long later, boolean ends) {
    assertThat(SupersededFiles.endsMinute(upper, later)).isEqualTo(ends);
  }

  /** Neither goes what was superseded a moment ago, nor stays what waits behind it. */
  @ParameterizedTest
  @ValueSource(longs = {72, -72})
  void anHourPassesWhateverTheClockIsSetTo(long hours) throws Exception {
    SupersededFiles files = new SupersededFiles(clock, path -> Optional.of(true), 9);
    files.add(io, file("a"));
    clock.setMs = hours * HOUR_MS;
    files.add(io, file("b"));
    Thread.sleep(100); // a thread of its own deletes
    assertThat(folder.resolve("a")).exists();
    clock.setMs = 0;
    clock.aheadMs += HOUR_MS;
    files.add(io, file("c"));
    waitForGone("a");
    waitForGone("b");
  }

  /** What finds no room stays for {@code txns tidy --files}, and what waits has its turn. */
  @Test
  void whatWaitsIsBounded() throws Exception {
    SupersededFiles files = new SupersededFiles(clock, path -> Optional.of(true), 2);
    for (String name : new String[] {"a", "b", "c"}) {
      files.add(io, file(name));
    }
    clock.aheadMs += HOUR_MS - 1000;
    files.add(io, file("d"));
    assertThat(folder.resolve("a")).exists();
    clock.aheadMs += 1000 + HOUR_MS;
    files.add(io, null);
    waitForGone("a");
    waitForGone("b");
    files.add(io, file("e"));
    clock.aheadMs += HOUR_MS;
    files.add(io, null);
    waitForGone("e");
    for (String name : new String[] {"c", "d"}) {
      assertThat(folder.resolve(name)).exists();
    }
  }

  /** What came to its end while the catalog did not tell is tried again. */
  @Test
  void whatNobodyKnowsOfWaitsAgain() throws Exception {
    AtomicReference<Optional<Boolean>> answer = new AtomicReference<>(Optional.empty());
    SupersededFiles files =
        new SupersededFiles(
            clock,
            path -> {
              asked.countDown();
              return answer.get();
            },
            9);
    files.add(io, file("a"));
    clock.aheadMs += HOUR_MS;
    files.add(io, null);
    assertThat(asked.await(10, TimeUnit.SECONDS)).isTrue();
    answer.set(Optional.of(true));
    for (int i = 0; i < 100 && Files.exists(folder.resolve("a")); i++) {
      Thread.sleep(100); // a thread of its own puts it back
      clock.aheadMs += HOUR_MS;
      files.add(io, null);
    }
    assertThat(folder.resolve("a")).doesNotExist();
  }

  /** 1. A log's storage hangs. 2. Another log's files are due, and go. 3. So do its own, then. */
  @Test
  void aStorageThatHangsKeepsTheFilesOfItsOwnLogAlone() throws Exception {
    CountDownLatch answers = new CountDownLatch(1);
    SupersededFiles hanging = waitingFor(answers, 2);
    SupersededFiles other = new SupersededFiles(clock, path -> Optional.of(true));
    hanging.add(io, file("a"));
    other.add(io, file("b"));
    clock.aheadMs += HOUR_MS;
    hanging.add(io, null);
    other.add(io, null);
    waitForGone("b");
    assertThat(folder.resolve("a")).exists();
    answers.countDown();
    waitForGone("a");
  }

  /** For want of memory, say: the next one has its turn, in this process. */
  @Test
  void anErrorOfOneFileKeepsNoOther() throws Exception {
    SupersededFiles files =
        new SupersededFiles(
            clock,
            path -> {
              if (path.endsWith("a")) {
                throw new OutOfMemoryError("injected");
              }
              return Optional.of(true);
            });
    files.add(io, file("a"));
    clock.aheadMs += HOUR_MS;
    files.add(io, file("b"));
    clock.aheadMs += HOUR_MS;
    files.add(io, null);
    waitForGone("b");
  }

  /** What is due and cannot be removed waits, too: nobody's memory holds more. */
  @Test
  void whatWaitsForAStorageThatHangsIsBounded() throws Exception {
    CountDownLatch answers = new CountDownLatch(1);
    SupersededFiles files = waitingFor(answers, 2);
    files.add(io, file("hangs"));
    clock.aheadMs += HOUR_MS;
    files.add(io, null);
    assertThat(asked.await(10, TimeUnit.SECONDS)).isTrue();
    for (String name : new String[] {"a", "b", "c", "d"}) {
      files.add(io, file(name));
      clock.aheadMs += HOUR_MS;
    }
    answers.countDown();
    waitForGone("hangs");
    waitForGone("a");
    waitForGone("b");
    assertThat(folder.resolve("c")).exists();
    assertThat(folder.resolve("d")).exists();
  }

  private SupersededFiles waitingFor(CountDownLatch answers, int queued) {
    return new SupersededFiles(
        clock,
        path -> {
          asked.countDown();
          try {
            answers.await(60, TimeUnit.SECONDS);
          } catch (InterruptedException e) {
            throw new IllegalStateException(e);
          }
          return Optional.of(true);
        },
        queued);
  }
}
