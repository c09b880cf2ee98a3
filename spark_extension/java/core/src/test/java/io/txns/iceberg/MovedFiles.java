package io.txns.iceberg;

import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.io.FileInfo;

/** Files of a storage for which time passes as for a test that moves it. */
public class MovedFiles extends HadoopFileIO {
  /** How far it is ahead of the system's time. */
  public static volatile MovedClock clock = new MovedClock();

  @Override
  public Iterable<FileInfo> listPrefix(String prefix) {
    List<FileInfo> moved = new ArrayList<>();
    for (FileInfo one : super.listPrefix(prefix)) {
      moved.add(new FileInfo(one.location(), one.size(), one.createdAtMillis() + clock.aheadMs));
    }
    return moved;
  }
}
