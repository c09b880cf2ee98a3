package io.txns.iceberg.commit;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;

/** Has no room for metadata files of the commit table, for some time. */
public class FullDiskIO extends HadoopFileIO {
  static final AtomicInteger FAILURES = new AtomicInteger();

  private static final Supplier<IOException> FULL =
      () -> new IOException("No space left on device");

  /** What is said then. */
  private static Supplier<IOException> error = FULL;

  /** Have the next ones fail, with an error if not because the disk is full. */
  static void failing(int times, Supplier<IOException> with) {
    FAILURES.set(times);
    error = with;
  }

  static void failing(int times) {
    failing(times, FULL);
  }

  @Override
  public OutputFile newOutputFile(String path) {
    OutputFile real = super.newOutputFile(path);
    boolean ofTheLog = path.contains("commits/metadata/") && path.endsWith(".metadata.json");
    return ofTheLog && FAILURES.getAndUpdate(left -> Math.max(left - 1, 0)) > 0
        ? new Full(real)
        : real;
  }

  /** There, and takes nothing of what is written to it; every second one cannot even be made. */
  private record Full(OutputFile real) implements OutputFile {
    @Override
    public PositionOutputStream create() {
      return createOrOverwrite();
    }

    @Override
    public PositionOutputStream createOrOverwrite() {
      if (FAILURES.get() % 2 == 0) {
        throw new UncheckedIOException(error.get());
      }
      return new PositionOutputStream() {
        @Override
        public long getPos() {
          return 0;
        }

        @Override
        public void write(int one) throws IOException {
          throw error.get();
        }
      };
    }

    @Override
    public String location() {
      return real.location();
    }

    @Override
    public InputFile toInputFile() {
      return real.toInputFile();
    }
  }
}
