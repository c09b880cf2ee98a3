package io.txns.iceberg.meta;

import org.apache.iceberg.io.FileIO;

/**
 * Writes files of local file systems without Hadoop. Where its native library is missing, as in
 * Spark's own distributions, Hadoop starts a process for each file, and one more for that of its
 * checksums, to set what they permit: that takes longer than all else that a small file needs.
 */
public final class LocalWrites {
  /** By its name: some engines run without Hadoop. */
  private static final String OF_HADOOP = "org.apache.iceberg.hadoop.HadoopFileIO";

  private LocalWrites() {}

  /**
   * The same files, of which those of local file systems are written by this process itself.
   *
   * @param io null for none
   * @return {@code io} itself where it is another one than Iceberg's over Hadoop
   */
  public static FileIO through(FileIO io) {
    return io != null && io.getClass().getName().equals(OF_HADOOP) ? LocalHadoopFileIO.of(io) : io;
  }
}
