package io.txns.iceberg.commit;

import io.txns.iceberg.MovedFiles;
import java.util.function.Consumer;
import org.apache.iceberg.io.OutputFile;

/** Storage that tells a test of each file before it is written. */
public class HookedFiles extends MovedFiles {
  /** Is told where each is to be. */
  static volatile Consumer<String> hook = path -> {};

  @Override
  public OutputFile newOutputFile(String path) {
    hook.accept(path);
    return super.newOutputFile(path);
  }
}
