package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.function.Function;

/** A {@link SimulationServer} in a JVM of its own, its lake, and every line that it has written. */
final class SimulatedJvm implements AutoCloseable {
  private final Process jvm;
  private final OutputStream in;
  private final BufferedReader out;
  private final List<String> lines = new ArrayList<>();
  private FakeLake lake = new FakeLake();
  private Function<JsonNode, ObjectNode> faults = step -> null;
  private long nowMs = FakeLake.START_MS;
  private long calls;

  SimulatedJvm() throws IOException {
    jvm =
        new ProcessBuilder(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-XX:+UseSerialGC",
                // Else hash codes of enums, and what is ordered by them, are others in each JVM.
                "-XX:+UnlockExperimentalVMOptions",
                "-XX:hashCode=2",
                "-cp",
                System.getProperty("java.class.path"),
                SimulationServer.class.getName())
            .redirectError(ProcessBuilder.Redirect.INHERIT)
            .start();
    in = jvm.getOutputStream();
    out = new BufferedReader(new InputStreamReader(jvm.getInputStream(), StandardCharsets.UTF_8));
  }

  FakeLake lake() {
    return lake;
  }

  /** All that it has written since it was started, or since the last reset. */
  List<String> lines() {
    return lines;
  }

  /**
   * @param newFaults gives what is told to a step in the place of its answer; null: its answer
   */
  void faults(Function<JsonNode, ObjectNode> newFaults) {
    faults = newFaults;
  }

  /** Let time pass. */
  void pass(long ms) {
    nowMs += ms;
  }

  /** Forget everything: the next call is the first one. */
  void reset() {
    say(Json.object().put("call", "reset"));
    if (!hear().has("result")) {
      throw new IllegalStateException("no reset");
    }
    lines.clear();
    lake = new FakeLake();
    faults = step -> null;
    nowMs = FakeLake.START_MS;
    calls = 0;
  }

  /** Run a call to its end and give its last line: a result, an error, or that it died. */
  JsonNode run(String process, String call, ObjectNode args) {
    ObjectNode told = Json.object().put("call", call).put("random", ++calls);
    told.set("args", args);
    while (true) {
      nowMs += 1;
      say(told.put("process", process).put("now", nowMs));
      JsonNode heard = hear();
      if (!heard.has("step")) {
        return heard;
      }
      ObjectNode fault = faults.apply(heard);
      told = fault == null ? lake.answer(heard) : fault;
    }
  }

  /** The same of a call that is to have a result. */
  JsonNode result(String process, String call, ObjectNode args) {
    JsonNode last = run(process, call, args);
    if (!last.has("result")) {
      throw new IllegalStateException(
          call
              + ": "
              + last.path("error").path("type")
              + "\n"
              + Json.text(last.path("error"), "message"));
    }
    return last.get("result");
  }

  private void say(JsonNode line) {
    try {
      in.write((line + "\n").getBytes(StandardCharsets.UTF_8));
      in.flush();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private JsonNode hear() {
    try {
      String line = out.readLine();
      if (line == null) {
        throw new IllegalStateException("the JVM has ended");
      }
      lines.add(line);
      return Json.parse(line);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    jvm.destroy();
  }
}
