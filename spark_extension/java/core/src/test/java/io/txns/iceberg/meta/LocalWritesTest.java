package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.LocalFiles;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.attribute.PosixFilePermissions;
import java.util.Map;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.LocalFileSystem;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.hadoop.HadoopFileIO;
import org.apache.iceberg.hadoop.HadoopOutputFile;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.OutputFile;
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

  @ParameterizedTest
  @ValueSource(strings = {"022", "077", "000"})
  void haveThePermissionsThatHadoopGives(String umask) throws IOException {
    conf.set("fs.permissions.umask-mode", umask);
    hadoop = new HadoopFileIO(conf);
    write(hadoop.newOutputFile(folder.resolve("theirs").toString()), "x");
    write(LocalWrites.through(hadoop).newOutputFile("file:" + folder.resolve("ours")), "x");
    assertThat(permissions("ours")).isEqualTo(permissions("theirs"));
  }

  @Test
  void areReadByHadoopWhateverStoodThere() throws IOException {
    String location = folder.resolve("a folder/that is new").toUri().getPath();
    OutputFile ours = LocalWrites.through(hadoop).newOutputFile(location);
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

  @Test
  void cannotBeWrittenWhereAFolderStands() throws IOException {
    Files.createDirectories(folder.resolve("file/below"));
    OutputFile ours = LocalWrites.through(hadoop).newOutputFile(folder.resolve("file").toString());
    assertThatThrownBy(ours::createOrOverwrite).isInstanceOf(RuntimeIOException.class);
  }

  @Test
  void othersAreLeftAlone() {
    FileIO memory = new InMemoryFileIO();
    FileIO own = new HadoopFileIO(conf) {};
    conf.set("fs.file.impl", LocalFiles.class.getName());
    hadoop = new HadoopFileIO(conf);
    OutputFile file = LocalWrites.through(hadoop).newOutputFile(folder.resolve("x").toString());
    assertThat(file).isInstanceOf(HadoopOutputFile.class);
    assertThat(LocalWrites.through(memory)).isSameAs(memory);
    assertThat(LocalWrites.through(own)).isSameAs(own);
    assertThat(LocalWrites.through(null)).isNull();
    hadoop.initialize(Map.of("a", "b"));
    assertThat(LocalWrites.through(hadoop).properties()).containsEntry("a", "b");
  }
}
