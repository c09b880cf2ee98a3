package io.txns.iceberg.meta;

import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopOutputFile;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.OutputFile;

/** Iceberg's files over Hadoop, of which local ones are written without that. */
final class LocalHadoopFileIO extends HadoopFileIO {
  private static final long serialVersionUID = 1L;

  /** Hadoop's own, and Hive's, which Spark's distributions have in its place. */
  private static final Set<String> LOCAL =
      Set.of(
          "org.apache.hadoop.fs.LocalFileSystem",
          "org.apache.hadoop.fs.RawLocalFileSystem",
          "org.apache.hadoop.hive.ql.io.ProxyLocalFileSystem");

  private LocalHadoopFileIO(Configuration conf) {
    super(conf);
  }

  static FileIO of(FileIO io) {
    FileIO local = new LocalHadoopFileIO(((HadoopFileIO) io).conf());
    local.initialize(io.properties());
    return local;
  }

  @Override
  public OutputFile newOutputFile(String location) {
    OutputFile file = super.newOutputFile(location);
    return file instanceof HadoopOutputFile hadoop && isLocal(hadoop)
        ? new LocalOutputFile(hadoop)
        : file;
  }

  private static boolean isLocal(HadoopOutputFile file) {
    return LocalOutputFile.IS_SUPPORTED
        && LOCAL.contains(file.getFileSystem().getClass().getName());
  }

  /**
   * What tasks get is Iceberg's own: they run where this class may not be known. Iceberg makes
   * metadata tables, which they read, of a table's operations, and these have its files from here.
   */
  private Object writeReplace() {
    FileIO plain = new HadoopFileIO(conf());
    plain.initialize(properties());
    return plain;
  }
}
