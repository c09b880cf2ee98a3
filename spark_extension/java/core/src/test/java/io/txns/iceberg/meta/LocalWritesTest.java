package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowable;
import static org.assertj.core.api.Assumptions.assumeThat;

import io.txns.LocalFiles;
import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CyclicBarrier;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopOutputFile;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Local files are what Hadoop would have made of them. */
class LocalWritesTest {
  @TempDir Path folder;

  private final Configuration conf = new Configuration();
  private FileIO hadoop;

  @BeforeEach
  void open() {
    conf.set("fs.file.impl", LocalFileSystem.class.getName());
    conf.set("fs.file.impl.disable.cache", "true");
    hadoop = new HadoopFileIO(conf);
  }

  private static void write(OutputFile file, String text) throws IOException {
    try (OutputStream out = file.createOrOverwrite()) {
      out.write(text.getBytes(StandardCharsets.UTF_8));
    }
  }

  private static String read(FileIO io, String location) throws IOException {
    try (var in = io.newInputFile(location).newStream()) {
      return new String(in.readAllBytes(), StandardCharsets.UTF_8);
    }
  }

  private String permissions(String name) throws IOException {
    return PosixFilePermissions.toString(Files.getPosixFilePermissions(folder.resolve(name)));
  }

  private OutputFile ours(Object location) {
    return LocalWrites.through(hadoop).newOutputFile(location.toString());
  }

  @ParameterizedTest
  @ValueSource(strings = {"022", "077", "000"})
  void haveThePermissionsThatHadoopGives(String umask) throws IOException {
    conf.set("fs.permissions.umask-mode", umask);
    hadoop = new HadoopFileIO(conf);
    write(hadoop.newOutputFile(folder.resolve("theirs").toString()), "x");
    write(ours("file:" + folder.resolve("ours")), "x");
    assertThat(permissions("ours")).isEqualTo(permissions("theirs"));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", "file:", "file://"})
  void lieWhereHadoopLooksForThem(String scheme) throws IOException {
    String location = scheme + folder.resolve("50%25 of a#b?c ü").toString();
    OutputFile ours = ours(location);
    write(ours, "ours");
    assertThat(ours).isNotInstanceOf(HadoopOutputFile.class);
    assertThat(read(hadoop, location)).isEqualTo("ours");
    assertThat(ours.location()).isEqualTo(hadoop.newOutputFile(location).location());
    assertThat(ours).hasToString(ours.location());
  }

  /** Below the folder that the process works in. */
  @Test
  void aBareName() throws IOException {
    String name = folder.getFileName() + ".txt";
    try {
      write(ours(name), "ours");
      assertThat(read(hadoop, name)).isEqualTo("ours");
    } finally {
      hadoop.deleteFile(name);
    }
  }

  @Test
  void areReadByHadoopWhateverStoodThere() throws IOException {
    String location = folder.resolve("a folder/that is new").toUri().getPath();
    OutputFile ours = ours(location);
    write(hadoop.newOutputFile(location), "what stood there, and its checksum");
    write(ours, "ours");
    try (var l = Files.list(folder.resolve("a folder"))) {}
    assertThat(read(hadoop, location)).isEqualTo("ours");
    assertThat(ours.location()).isEqualTo(location);
    assertThat(ours.toInputFile().getLength()).isEqualTo(4);
    assertThatThrownBy(ours::create).isInstanceOf(AlreadyExistsException.class);
    assertThat(folder.resolve("a folder")).isDirectoryNotContaining("glob:**.crc");
    hadoop.deleteFile(location);
    assertThat(folder.resolve("a folder")).isEmptyDirectory();
  }

  /** Python removes a file, and leaves the checksums that Hadoop has put beside it. */
  @Test
  void areReadByHadoopWithLeftChecksums() throws IOException {
    Path path = folder.resolve("file");
    write(hadoop.newOutputFile(path.toString()), "theirs");
    Files.delete(path);
    try (OutputStream out = ours(path).create()) {
      out.write("ours".getBytes(StandardCharsets.UTF_8));
    }
    assertThat(read(hadoop, path.toString())).isEqualTo("ours");
  }

  /** A folder on another disk, as of {@code write.metadata.path}. */
  @Test
  void areWrittenIntoALinkedFolder() throws IOException {
    Path real = Files.createDirectory(folder.resolve("real"));
    Path link = Files.createSymbolicLink(folder.resolve("link"), real);
    write(ours(link.resolve("overwritten")), "ours");
    ours(link.resolve("created")).create().close();
    assertThat(real.resolve("overwritten")).hasContent("ours");
    assertThat(real.resolve("created")).isEmptyFile();
  }

  @Test
  void overwriteWhatALinkLeadsTo() throws IOException {
    Path real = Files.writeString(folder.resolve("real"), "what stood there, which is longer");
    Path link = Files.createSymbolicLink(folder.resolve("link"), real);
    write(ours(link), "ours");
    assertThat(link).isSymbolicLink();
    assertThat(real).hasContent("ours");
  }

  @Test
  void areCreatedOnce() throws Exception {
    int threads = 4;
    ExecutorService pool = Executors.newFixedThreadPool(threads);
    CyclicBarrier start = new CyclicBarrier(threads);
    try {
      for (int round = 0; round < 200; round++) {
        Path path = folder.resolve("file" + round);
        List<Future<Boolean>> created = new ArrayList<>();
        for (int each = 0; each < threads; each++) {
          created.add(pool.submit(() -> isCreated(start, path)));
        }
        int times = 0;
        for (Future<Boolean> one : created) {
          times += one.get() ? 1 : 0;
        }
        assertThat(times).isEqualTo(1);
      }
    } finally {
      pool.shutdownNow();
    }
  }

  private boolean isCreated(CyclicBarrier start, Path path) throws Exception {
    OutputFile ours = ours(path);
    start.await();
    try {
      ours.create().close();
      return true;
    } catch (AlreadyExistsException e) {
      return false;
    }
  }

  /** Iceberg takes the lengths of manifests from it. */
  @Test
  void knowTheirLength() throws IOException {
    OutputFile ours = ours(folder.resolve("file"));
    PositionOutputStream out = ours.create();
    out.write(new byte[100_000]);
    out.write(1);
    assertThat(out.getPos()).isEqualTo(100_001);
    out.close();
    assertThat(out.storedLength()).isEqualTo(100_001);
    assertThat(ours.toInputFile().getLength()).isEqualTo(100_001);
  }

  @Test
  void areNotTouchedWithAWrongMask() throws IOException {
    Path path = Files.writeString(folder.resolve("file"), "what stands there");
    conf.set("fs.permissions.umask-mode", "no mask");
    hadoop = new HadoopFileIO(conf);
    assertThatThrownBy(() -> write(ours(path), "ours"))
        .isInstanceOf(IllegalArgumentException.class);
    assertThat(path).hasContent("what stands there");
  }

  @Test
  void cannotBeWrittenWhereAFolderStands() throws IOException {
    Files.createDirectories(folder.resolve("file/below"));
    OutputFile ours = ours(folder.resolve("file"));
    assertThatThrownBy(ours::createOrOverwrite).isInstanceOf(RuntimeIOException.class);
    assertThatThrownBy(ours::create).isInstanceOf(AlreadyExistsException.class);
  }

  /** Also by a path without a scheme; who may not write is told at once. */
  @ParameterizedTest
  @ValueSource(strings = {"/proc/self/txns.json", "/proc/self/txns/metadata/txns.json"})
  void areDeniedWhereNobodyMayWrite(String location) {
    assumeThat(Files.isDirectory(Path.of("/proc/self"))).isTrue();
    for (String each : List.of(location, "file:" + location)) {
      Throwable denied = catchThrowable(() -> ours(each).create());
      assertThat(denied).isInstanceOf(RuntimeIOException.class).hasMessageEndingWith(each);
      assertThat(MetadataFiles.isDenied(denied)).isTrue();
    }
  }

  /** They write data files, and may not know our classes. */
  @Test
  void tasksGetIcebergsOwn() throws Exception {
    hadoop.initialize(Map.of("a", "b"));
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    try (ObjectOutputStream out = new ObjectOutputStream(bytes)) {
      out.writeObject(LocalWrites.through(hadoop));
    }
    try (var in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray()))) {
      HadoopFileIO sent = (HadoopFileIO) in.readObject();
      assertThat(sent).isExactlyInstanceOf(HadoopFileIO.class);
      assertThat(sent.properties()).containsEntry("a", "b");
      assertThat(sent.conf().get("fs.file.impl")).isEqualTo(conf.get("fs.file.impl"));
    }
  }

  @Test
  void othersAreLeftAlone() {
    FileIO memory = new InMemoryFileIO();
    FileIO own = new HadoopFileIO(conf) {};
    conf.set("fs.file.impl", LocalFiles.class.getName());
    hadoop = new HadoopFileIO(conf);
    assertThat(ours(folder.resolve("x"))).isInstanceOf(HadoopOutputFile.class);
    assertThat(LocalWrites.through(memory)).isSameAs(memory);
    assertThat(LocalWrites.through(own)).isSameAs(own);
    assertThat(LocalWrites.through(null)).isNull();
    hadoop.initialize(Map.of("a", "b"));
    assertThat(LocalWrites.through(hadoop).properties()).containsEntry("a", "b");
  }
}
