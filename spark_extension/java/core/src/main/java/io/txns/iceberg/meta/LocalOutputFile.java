package io.txns.iceberg.meta;

import java.io.IOException;
import java.nio.file.FileSystems;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.function.Supplier;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.iceberg.Files;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.hadoop.HadoopOutputFile;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;

/** A local file as Hadoop would write it, with its permissions, and without its checksums. */
final class LocalOutputFile implements OutputFile {
  /** Whether files have the permissions that Hadoop gives them. */
  static final boolean IS_SUPPORTED =
      FileSystems.getDefault().supportedFileAttributeViews().contains("posix");

  private final HadoopOutputFile file;
  private final Path path;

  LocalOutputFile(HadoopOutputFile file) {
    this.file = file;
    this.path = Path.of(file.getPath().toUri().getPath());
  }

  @Override
  public PositionOutputStream create() {
    return opened(Files.localOutput(path.toFile())::create);
  }

  @Override
  public PositionOutputStream createOrOverwrite() {
    return opened(Files.localOutput(path.toFile())::createOrOverwrite);
  }

  private PositionOutputStream opened(Supplier<PositionOutputStream> open) {
    try {
      java.nio.file.Files.createDirectories(path.getParent());
      PositionOutputStream stream = open.get();
      java.nio.file.Files.setPosixFilePermissions(
          path, PosixFilePermissions.fromString(permission().toString()));
      // Those of a file that stood there before would not fit.
      java.nio.file.Files.deleteIfExists(path.resolveSibling("." + path.getFileName() + ".crc"));
      return stream;
    } catch (IOException e) {
      throw failed(e);
    } catch (NotFoundException e) { // so it calls whatever it cannot open
      throw failed((IOException) e.getCause());
    }
  }

  private FsPermission permission() {
    return FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(file.getConf()));
  }

  private RuntimeIOException failed(IOException e) {
    return new RuntimeIOException(e, "Failed to create file: %s", file.location());
  }

  @Override
  public String location() {
    return file.location();
  }

  @Override
  public InputFile toInputFile() {
    return file.toInputFile();
  }
}
