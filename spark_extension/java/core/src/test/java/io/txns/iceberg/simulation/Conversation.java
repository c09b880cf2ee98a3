package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStream;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.util.Collection;
import java.util.HashMap;
import java.util.Map;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.core.config.Configurator;

/** Reads lines, hands each to its process, and writes what the processes say. */
final class Conversation {
  private final OutputStream out;
  private final Map<String, SimulatedProcess> processes = new HashMap<>();

  private Conversation(OutputStream out) {
    this.out = out;
  }

  /** Go on until there is no more to read. */
  static void hold(InputStream in, OutputStream out) throws IOException {
    // Failures are what it is about; -Dtxns.simulation.log=warn shows what is said about them.
    Configurator.setRootLevel(Level.toLevel(System.getProperty("txns.simulation.log"), Level.OFF));
    Conversation conversation = new Conversation(out);
    BufferedReader lines =
        new BufferedReader(new InputStreamReader(in, StandardCharsets.UTF_8), 1 << 16);
    for (String line = lines.readLine(); line != null; line = lines.readLine()) {
      conversation.hear(Json.parse(line));
    }
  }

  private void hear(JsonNode line) {
    String name = Json.text(line, "process");
    if (name != null) {
      processes.computeIfAbsent(name, one -> new SimulatedProcess(one, this::say)).tell(line);
      return;
    }
    switch (Json.text(line, "call")) {
      case "reset" -> {
        processes.values().forEach(SimulatedProcess::end);
        processes.clear();
        say(Json.object().putNull("result"));
      }
      case "unasked" -> say(result(Mutated.unasked()));
      case "mutations" -> say(result(Mutations.all().stream().map(Mutation::name).toList()));
      default -> throw new IllegalArgumentException("neither a process nor a call: " + line);
    }
  }

  private static JsonNode result(Collection<String> names) {
    ObjectNode line = Json.object();
    line.set("result", Json.array(names));
    return line;
  }

  private synchronized void say(JsonNode line) {
    try {
      out.write((line + "\n").getBytes(StandardCharsets.UTF_8));
      out.flush();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
