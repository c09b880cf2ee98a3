package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.function.Consumer;

/** A simulated process: what its threads share. */
final class SimulatedProcess {
  private final String name;
  private final Consumer<JsonNode> out;
  private final Map<String, SimulatedThread> threads = new LinkedHashMap<>();
  private final Monitors monitors = new Monitors();
  private final Session session = new Session(this);
  private boolean payloadsInFiles;

  /**
   * @param out where the lines of its threads go
   */
  SimulatedProcess(String name, Consumer<JsonNode> out) {
    this.name = name;
    this.out = out;
  }

  String name() {
    return name;
  }

  Monitors monitors() {
    return monitors;
  }

  Session session() {
    return session;
  }

  /** Whether payloads stand in files of their own, however small they are. */
  boolean payloadsInFiles() {
    return payloadsInFiles;
  }

  void putPayloadsInFiles(boolean inFiles) {
    payloadsInFiles = inFiles;
  }

  /** Hand a line to the thread that it names, which begins with its first one. */
  void tell(JsonNode line) {
    String thread = line.path("thread").asText(name);
    threads.computeIfAbsent(thread, called -> new SimulatedThread(this, called, out)).tell(line);
  }

  /** End the threads that are between two calls. */
  void end() {
    threads.values().forEach(thread -> thread.tell(Json.object().put("end", true)));
  }
}
