package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.net.ConnectException;
import java.nio.file.Files;
import java.nio.file.Path;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What Hadoop says of files, and what of it is a matter of local permissions. */
class LocalPermissionsTest {
  /** A folder that even root may not write into. */
  private static final String READ_ONLY = "/proc/self/txns";

  @BeforeEach
  void isReadOnly() {
    assumeThat(Files.isDirectory(Path.of("/proc/self"))).isTrue();
    assumeThat(Files.isWritable(Path.of("/proc/self"))).isFalse();
  }

  private static boolean mayNotWrite(String scheme, IOException cause) {
    String file = scheme + READ_ONLY + "/v1.metadata.json";
    return LocalPermissions.mayNotWrite(
        new RuntimeIOException(cause, "Failed to create file: %s", file));
  }

  /** In the words of Hadoop's local file system. */
  @Test
  void whatMayNotBeWrittenHere() {
    String file = READ_ONLY + "/v1.metadata.json";
    assertThat(mayNotWrite("", new FileNotFoundException(file + " (Keine Berechtigung)"))).isTrue();
    String mkdirs = "Mkdirs failed to create " + READ_ONLY + " (exists=false, cwd=file:/work)";
    assertThat(mayNotWrite("", new IOException(mkdirs))).isTrue();
    assertThat(mayNotWrite("file:", new IOException(mkdirs))).isTrue();
  }

  /**
   * A path without a scheme is HDFS's where that is the default: its server is down for a while.
   */
  @Test
  void whatAnotherStorageCannotWriteIsNoMatterOfLocalFiles() {
    assertThat(mayNotWrite("", new ConnectException("namenode:8020: Connection refused")))
        .isFalse();
    assertThat(mayNotWrite("", new FileNotFoundException("Parent does not exist: /x"))).isFalse();
    assertThat(mayNotWrite("hdfs://nn", new IOException("no datanode"))).isFalse();
  }
}
