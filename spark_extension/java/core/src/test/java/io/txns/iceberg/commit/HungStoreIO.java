package io.txns.iceberg.commit;

import java.io.UncheckedIOException;
import java.net.SocketTimeoutException;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;

/**
 * Files of a store that has stopped, as by SIGSTOP: a call on one of them waits until it goes on,
 * or for its time-out.
 */
public class HungStoreIO extends HadoopFileIO {
  static final long TIME_OUT_MS = 300;

  private static volatile String part;
  private static volatile CountDownLatch answers = new CountDownLatch(0);

  /** Stop the store of those files whose path has a part. */
  static void stop(String of) {
    part = of;
    answers = new CountDownLatch(1);
  }

  /** Let it go on. */
  static void goOn() {
    answers.countDown();
  }

  private static void call(String path) {
    if (part == null || !path.contains(part)) {
      return;
    }
    try {
      if (!answers.await(TIME_OUT_MS, TimeUnit.MILLISECONDS)) {
        throw new UncheckedIOException(new SocketTimeoutException("Read timed out: " + path));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  @Override
  public InputFile newInputFile(String path) {
    call(path);
    return super.newInputFile(path);
  }

  @Override
  public InputFile newInputFile(String path, long length) {
    call(path);
    return super.newInputFile(path, length);
  }

  @Override
  public OutputFile newOutputFile(String path) {
    OutputFile real = super.newOutputFile(path);
    return part != null && path.contains(part) ? new Called(real) : real;
  }

  @Override
  public void deleteFile(String path) {
    call(path);
    super.deleteFile(path);
  }

  /** It is asked when something is written, as a store is. */
  private record Called(OutputFile real) implements OutputFile {
    @Override
    public PositionOutputStream create() {
      call(real.location());
      return real.create();
    }

    @Override
    public PositionOutputStream createOrOverwrite() {
      call(real.location());
      return real.createOrOverwrite();
    }

    @Override
    public String location() {
      return real.location();
    }

    @Override
    public InputFile toInputFile() {
      call(real.location());
      return real.toInputFile();
    }
  }
}
