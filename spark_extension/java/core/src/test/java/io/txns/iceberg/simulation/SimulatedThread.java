package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.Random;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.function.Consumer;

/**
 * A thread of a simulated process: it runs what it is told, and waits in each step for the answer.
 *
 * <p>One of all of them runs at a time: it has been told something, and has not answered yet.
 */
final class SimulatedThread {
  private static final ThreadLocal<SimulatedThread> CURRENT = new ThreadLocal<>();

  private final SimulatedProcess process;
  private final String name;
  private final Consumer<JsonNode> out;
  private final BlockingQueue<JsonNode> in = new LinkedBlockingQueue<>();
  private Random random = new Random(0);
  private long nowMs;
  private long elapsedMs;
  private boolean dead;

  /**
   * @param out where its lines go
   */
  SimulatedThread(SimulatedProcess process, String name, Consumer<JsonNode> out) {
    this.process = process;
    this.name = name;
    this.out = out;
    Thread thread = new Thread(this::live, name);
    thread.setDaemon(true);
    thread.start();
  }

  /** The one that runs. */
  static SimulatedThread current() {
    SimulatedThread current = CURRENT.get();
    if (current == null) {
      throw new IllegalStateException("no simulated process runs in " + Thread.currentThread());
    }
    return current;
  }

  SimulatedProcess process() {
    return process;
  }

  /** Its clock, in ms: what the last line for it said. */
  long nowMs() {
    return nowMs;
  }

  /** A clock, in ms, that nobody sets: for differences. */
  long elapsedMs() {
    return elapsedMs;
  }

  Random random() {
    return random;
  }

  boolean isDead() {
    return dead;
  }

  /** Hand it a line; it answers by itself. */
  void tell(JsonNode line) {
    in.add(line);
  }

  // ------------------------------------------------------------ what runs in it

  private void live() {
    CURRENT.set(this);
    while (!dead) {
      JsonNode line = hear();
      if (line.has("call")) {
        random = new Random(line.path("random").asLong());
        out.accept(answer(line));
      } else {
        dead = true; // between two calls: there is nothing to unwind
        if (line.has("die")) {
          out.accept(died());
        }
      }
    }
  }

  private ObjectNode answer(JsonNode line) {
    String kind = "result";
    JsonNode given;
    try {
      given = process.session().call(line.get("call").asText(), line.path("args"));
    } catch (Exception | Error e) {
      kind = "error";
      given = described(e);
    }
    return dead ? died() : (ObjectNode) line().set(kind, given);
  }

  /** Whatever it is: who waits for an answer would wait for ever. */
  private static ObjectNode described(Throwable e) {
    try {
      return Failures.describe(e);
    } catch (RuntimeException undescribed) {
      undescribed.addSuppressed(e);
      return Failures.describe(undescribed);
    }
  }

  private ObjectNode died() {
    return line().put("died", true);
  }

  private ObjectNode line() {
    ObjectNode line = Json.object().put("process", process.name()).put("thread", name);
    ObjectNode changes = line.putObject("changes");
    for (Monitors.Change change : Monitors.Change.values()) {
      changes.put(change.name(), process.monitors().count(change));
    }
    return line;
  }

  private JsonNode hear() {
    try {
      JsonNode line = in.take();
      nowMs = line.path("now").asLong(nowMs);
      elapsedMs = line.path("elapsed").asLong(nowMs);
      return line;
    } catch (InterruptedException e) {
      throw new IllegalStateException("nobody interrupts a simulated process", e);
    }
  }

  /**
   * Take a step of I/O.
   *
   * @param fields what there is to say about it
   * @return what it gave
   * @throws StepFailed what it fails with
   * @throws SimulatedDeath here, and in each step that is tried while it unwinds
   */
  JsonNode step(String kind, ObjectNode fields) {
    unwindIfDead();
    ObjectNode step = line().put("step", kind);
    step.setAll(fields);
    out.accept(step);
    JsonNode heard = hear();
    if (heard.has("die")) {
      dead = true;
      throw new SimulatedDeath();
    }
    if (heard.has("raise")) {
      throw new StepFailed(heard.get("raise"));
    }
    return heard.path("answer");
  }

  /** Sleep for some time up to {@code maxMs}. */
  void sleep(long maxMs) {
    step("sleep", Json.object().put("max_ms", Math.max(1, maxMs)));
  }

  /** Stand until another thread of the process has let go of something, or has given notice. */
  void standBy(Monitors.Change change) {
    step("stand-by", Json.object().put("for", change.name()));
  }

  void unwindIfDead() {
    if (dead) {
      throw new SimulatedDeath();
    }
  }
}
