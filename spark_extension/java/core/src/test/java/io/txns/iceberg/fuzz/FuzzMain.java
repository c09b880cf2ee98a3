package io.txns.iceberg.fuzz;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.log.FuzzedLog;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.management.ManagementFactory;
import java.lang.management.MemoryPoolMXBean;
import java.lang.management.MemoryType;
import java.lang.management.ThreadMXBean;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.List;
import java.util.Objects;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;

/**
 * Java's half of the fuzzer (tests/fuzz): reads inputs, a line each, and answers each with a line
 * that says what the core makes of it, how long that took, and what memory was in use.
 */
public final class FuzzMain {
  private static final ObjectMapper LINES =
      new ObjectMapper(
          JsonFactory.builder()
              .streamReadConstraints(
                  StreamReadConstraints.builder()
                      .maxStringLength(Integer.MAX_VALUE)
                      .maxNameLength(Integer.MAX_VALUE)
                      .build())
              .build());

  private static final long HUNG_NS = 60_000_000_000L;

  private final TableMetadata empty;

  /** Since when it has been at an input; 0 for none. */
  private volatile long running;

  private FuzzMain(TableMetadata empty) {
    this.empty = empty;
  }

  /** Answer lines until the input ends; the first one is the metadata of an empty commit table. */
  public static void main(String[] args) throws IOException {
    PrintStream out = new PrintStream(System.out, true, StandardCharsets.UTF_8);
    System.setOut(System.err); // only answers go there
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
    FuzzMain judge = new FuzzMain(TableMetadataParser.fromJson(lines.readLine()));
    Thread watch = new Thread(() -> judge.watch(Thread.currentThread()), "watch");
    watch.setDaemon(true);
    watch.start();
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      out.println(judge.answer(line));
    }
    out.flush();
  }

  /** End it where an input takes for ever: whoever waits for the answer is told so. */
  private void watch(Thread self) {
    while (!self.isInterrupted()) {
      long since = running;
      if (since != 0 && System.nanoTime() - since > HUNG_NS) {
        Thread.getAllStackTraces()
            .forEach((thread, at) -> System.err.println(thread + " " + List.of(at)));
        Runtime.getRuntime().halt(1);
      }
      try {
        Thread.sleep(1000);
      } catch (InterruptedException e) {
        self.interrupt();
      }
    }
  }

  private String answer(String line) throws IOException {
    JsonNode one = LINES.readTree(line);
    pools();
    ThreadMXBean threads = ManagementFactory.getThreadMXBean();
    long before = threads.getCurrentThreadCpuTime();
    running = System.nanoTime();
    String verdict = verdict(one);
    running = 0;
    long micros = (threads.getCurrentThreadCpuTime() - before) / 1000;
    ObjectNode answer = LINES.createObjectNode().put("n", one.get("n").asLong());
    return answer.put("verdict", verdict).put("us", micros).put("bytes", pools()).toString();
  }

  private String verdict(JsonNode one) {
    try {
      String value = value(one.get("kind").asText(), one.get("in"));
      return one.has("whole") ? value : "VALUE " + digest(value);
    } catch (NoTable e) {
      return "NO_TABLE";
    } catch (TxnException e) {
      return one.has("whole") ? String.valueOf(e) : kind(e);
    } catch (Throwable e) { // this is what is looked for
      return "CRASH " + e + " at " + where(e);
    }
  }

  private static String kind(TxnException e) {
    try {
      return Line.kind(e);
    } catch (TxnException other) {
      return "CRASH " + other;
    }
  }

  private static String where(Throwable e) {
    for (StackTraceElement at : e.getStackTrace()) {
      if (at.getClassName().startsWith("io.txns")) {
        return at.toString();
      }
    }
    return "";
  }

  private String value(String kind, JsonNode given) {
    return switch (kind) {
      case "record" -> FuzzedLog.record(given);
      case "head" -> FuzzedLog.head(metadata(given));
      case "payload" -> FuzzedLog.payload(given, empty);
      case "location" -> FuzzedLog.location(given);
      case "archive" -> FuzzedLog.archive(given);
      case "mark" -> FuzzedTables.mark(metadata(given));
      case "overlay" -> FuzzedTables.overlay(given, metadata(given), empty);
      case "create" -> FuzzedTables.create(given, empty);
      default -> throw new IllegalArgumentException(kind);
    };
  }

  /** Iceberg itself refuses the metadata: no catalog gives such a table. */
  static final class NoTable extends RuntimeException {
    private static final long serialVersionUID = 1L;

    NoTable(Throwable cause) {
      super(cause);
    }
  }

  private static TableMetadata metadata(JsonNode given) {
    try {
      TableMetadata metadata = TableMetadataParser.fromJson(given.get("metadata").asText());
      // Whose default is none of its own, no change is laid over by Iceberg; pyiceberg loads none.
      Objects.requireNonNull(metadata.schema());
      Objects.requireNonNull(metadata.spec());
      Objects.requireNonNull(metadata.sortOrder());
      return metadata;
    } catch (RuntimeException | StackOverflowError e) {
      throw new NoTable(e);
    }
  }

  private static String digest(String value) {
    try {
      byte[] bytes = value.getBytes(StandardCharsets.UTF_8);
      byte[] digest = MessageDigest.getInstance("SHA-256").digest(bytes);
      return HexFormat.of().formatHex(digest).substring(0, 16);
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }

  /** The greatest use of the heap since the last call. */
  private static long pools() {
    long bytes = 0;
    for (MemoryPoolMXBean pool : ManagementFactory.getMemoryPoolMXBeans()) {
      if (pool.getType() == MemoryType.HEAP) {
        bytes += pool.getPeakUsage().getUsed();
        pool.resetPeakUsage();
      }
    }
    return bytes;
  }
}
