package io.txns.iceberg.commit;

import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.OutputFile;

/** Needs a while for each file of a kind. */
public class SlowFilesIO extends HadoopFileIO {
  static final long TAKES_MS = 4_500;
  static volatile String slow; // what their names have; null for none

  @Override
  public OutputFile newOutputFile(String path) {
    if (slow != null && path.contains(slow)) {
      try {
        Thread.sleep(TAKES_MS);
      } catch (InterruptedException e) {
        throw new IllegalStateException(e);
      }
    }
    return super.newOutputFile(path);
  }
}
