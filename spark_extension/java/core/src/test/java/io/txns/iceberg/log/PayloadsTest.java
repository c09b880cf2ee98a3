package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.Isolation;
import java.nio.charset.StandardCharsets;
import java.util.List;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.inmemory.InMemoryFileIO;
import org.junit.jupiter.api.Test;

/** Payloads that are kept: as much as everybody's memory can take, whoever has written them. */
class PayloadsTest {
  private static final String LOCATION = "memory:/log";
  private static final int LARGE = 9_000_000;

  private final InMemoryFileIO io = new InMemoryFileIO();
  private final Payloads payloads = new Payloads();

  private Entry written(String name, int size) {
    String json =
        String.format(
            "{\"table-changes\":[{\"identifier\":{\"namespace\":[\"shop\"],\"name\":\"a\"},"
                + "\"requirements\":[],\"updates\":[]}],\"%s\":\"%s\"}",
            name, "x".repeat(size));
    byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
    String sha256 = Payloads.sha256(bytes);
    String location = LOCATION + "/metadata/" + Payloads.fileName(name, sha256);
    io.addFile(location, bytes);
    return new Entry(
        EntryKind.COMMIT,
        5,
        4,
        5,
        0,
        0,
        name,
        Isolation.SNAPSHOT,
        "",
        "",
        List.of(),
        new Entry.Payload(null, location, sha256));
  }

  private void read(Entry entry) {
    assertThat(payloads.read(entry, () -> io, () -> LOCATION)).hasSize(1);
  }

  private void lose(Entry entry) {
    io.deleteFile(entry.payload().location());
  }

  @Test
  void ofLargeOnesTheNewestIsKept() {
    Entry one = written("one", LARGE);
    Entry two = written("two", LARGE);
    read(one);
    read(two);
    lose(one);
    lose(two);
    read(two);
    assertThatThrownBy(() -> read(one)).isInstanceOf(NotFoundException.class);
  }

  @Test
  void oneThatIsLargerThanAllThatIsKept() {
    Entry small = written("small", 1);
    String json = "x".repeat(LARGE);
    Entry large = written("a\":\"" + json + "\",\"b", LARGE);
    read(small);
    read(large);
    lose(large);
    read(large);
    lose(small);
    assertThatThrownBy(() -> read(small)).isInstanceOf(NotFoundException.class);
  }

  @Test
  void manySmallOnesAreKept() {
    List<Entry> some =
        List.of(written("one", 70_000), written("two", 70_000), written("three", 70_000));
    some.forEach(this::read);
    some.forEach(this::lose);
    some.forEach(this::read);
  }
}
