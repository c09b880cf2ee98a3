package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.MovedClock;
import java.nio.file.Files;
import java.nio.file.Path;
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
    SupersededFiles files = new SupersededFiles(clock, path -> true, 9);
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
    SupersededFiles files = new SupersededFiles(clock, path -> true, 2);
    for (String name : new String[] {"a", "b", "c"}) {
      files.add(io, file(name));
    }
    clock.aheadMs += HOUR_MS - 1000;
    files.add(io, file("d"));
    assertThat(folder.resolve("a")).exists();
    clock.aheadMs += 1000 + HOUR_MS;
    files.add(io, file("e"));
    clock.aheadMs += HOUR_MS;
    files.add(io, file("f"));
    for (String name : new String[] {"a", "b", "e"}) {
      waitForGone(name);
    }
    for (String name : new String[] {"c", "d", "f"}) {
      assertThat(folder.resolve(name)).exists();
    }
  }
}
