package io.txns.iceberg.meta;

import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopOutputFile;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.OutputFile;

/** Iceberg's files over Hadoop, of which local ones are written without that. */
final class LocalHadoopFileIO extends HadoopFileIO {
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
    if (LocalOutputFile.IS_SUPPORTED && file instanceof HadoopOutputFile hadoop) {
      String system = hadoop.getFileSystem().getClass().getName();
      return LOCAL.contains(system) ? new LocalOutputFile(hadoop) : file;
    }
    return file;
  }
}
