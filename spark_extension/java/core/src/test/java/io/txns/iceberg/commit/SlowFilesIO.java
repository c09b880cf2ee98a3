package io.txns.iceberg.commit;

import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.OutputFile;

/** Needs a while for each metadata file. */
public class SlowFilesIO extends HadoopFileIO {
  static final long TAKES_MS = 4_500;
  static volatile boolean isSlow;

  @Override
  public OutputFile newOutputFile(String path) {
    if (isSlow && path.endsWith(".metadata.json")) {
      try {
        Thread.sleep(TAKES_MS);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
    return super.newOutputFile(path);
  }
}
