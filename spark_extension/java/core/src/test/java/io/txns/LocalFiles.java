package io.txns;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.attribute.PosixFilePermissions;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.hadoop.fs.RawLocalFileSystem;
import org.apache.hadoop.fs.permission.FsPermission;

/**
 * Hadoop's local files, whose permissions are set in this process. Where its native library is
 * missing, Hadoop starts a chmod for each file and each folder: thousands in a run of the tests.
 */
public final class LocalFiles extends LocalFileSystem {
  private static final int OF_FILES = 0777;

  public LocalFiles() {
    super(new Raw());
  }

  private static final class Raw extends RawLocalFileSystem {
    @Override
    public void setPermission(Path path, FsPermission permission) throws IOException {
      String bits = new FsPermission((short) (permission.toShort() & OF_FILES)).toString();
      Files.setPosixFilePermissions(
          pathToFile(path).toPath(), PosixFilePermissions.fromString(bits));
    }
  }
}
