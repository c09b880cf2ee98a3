package io.txns.iceberg.meta;

import java.io.BufferedOutputStream;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileAlreadyExistsException;
import java.nio.file.FileSystems;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermission;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Set;
import org.apache.hadoop.fs.permission.FsPermission;
import org.apache.iceberg.exceptions.AlreadyExistsException;
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
    this.path = path(file);
  }

  /** A name without a folder lies where the process works. */
  private static Path path(HadoopOutputFile file) {
    org.apache.hadoop.fs.Path named = file.getPath();
    org.apache.hadoop.fs.Path absolute =
        named.isAbsolute()
            ? named
            : new org.apache.hadoop.fs.Path(file.getFileSystem().getWorkingDirectory(), named);
    return Path.of(absolute.toUri().getPath());
  }

  @Override
  public PositionOutputStream create() {
    try {
      createFolder();
      reserve();
      return opened();
    } catch (FileAlreadyExistsException e) {
      throw new AlreadyExistsException(e, "Path already exists: %s", location());
    } catch (IOException e) {
      throw failed(e);
    }
  }

  private void reserve() throws IOException {
    try {
      Files.createFile(path);
    } catch (AccessDeniedException e) {
      // Opening it is denied, too, in the words that Hadoop has for it.
    }
  }

  /** What stands there is overwritten in its place, as by Hadoop: it may be a link. */
  @Override
  public PositionOutputStream createOrOverwrite() {
    try {
      createFolder();
      return opened();
    } catch (IOException e) {
      throw failed(e);
    }
  }

  /** Most often it is there, perhaps as a link to one. */
  private void createFolder() throws IOException {
    Path folder = path.getParent();
    if (!Files.isDirectory(folder)) {
      Files.createDirectories(folder);
    }
  }

  private PositionOutputStream opened() throws IOException {
    Set<PosixFilePermission> permissions = permissions(); // a wrong mask is told before all else
    // Those of a file that stood there before would not fit.
    Files.deleteIfExists(path.resolveSibling("." + path.getFileName() + ".crc"));
    // Not a channel: who cancels a statement would close it in the middle of a commit.
    OutputStream out = new FileOutputStream(path.toFile());
    try {
      Files.setPosixFilePermissions(path, permissions);
    } catch (IOException | RuntimeException e) {
      out.close();
      throw e;
    }
    return new Counted(new BufferedOutputStream(out));
  }

  private Set<PosixFilePermission> permissions() {
    FsPermission permission =
        FsPermission.getFileDefault().applyUMask(FsPermission.getUMask(file.getConf()));
    return PosixFilePermissions.fromString(permission.toString());
  }

  private RuntimeIOException failed(IOException e) {
    return new RuntimeIOException(e, "Failed to create file: %s", location());
  }

  @Override
  public String location() {
    return file.location();
  }

  @Override
  public InputFile toInputFile() {
    return file.toInputFile();
  }

  @Override
  public String toString() {
    return location();
  }

  /** Knows how many bytes it was given. */
  private static final class Counted extends PositionOutputStream {
    private final OutputStream out;
    private long position;

    private Counted(OutputStream out) {
      this.out = out;
    }

    @Override
    public long getPos() {
      return position;
    }

    @Override
    public void write(int one) throws IOException {
      out.write(one);
      position++;
    }

    @Override
    public void write(byte[] bytes, int offset, int length) throws IOException {
      out.write(bytes, offset, length);
      position += length;
    }

    @Override
    public void flush() throws IOException {
      out.flush();
    }

    @Override
    public void close() throws IOException {
      out.close();
    }
  }
}
