package io.txns.iceberg;

import java.util.Map;
import org.apache.iceberg.EnvironmentContext;

/** Who writes an entry, for people: the engine's name and version, as Iceberg knows them. */
final class Engine {
  private Engine() {}

  static String name() {
    Map<String, String> context = EnvironmentContext.get();
    String engine = context.getOrDefault(EnvironmentContext.ENGINE_NAME, "java");
    String version =
        context.getOrDefault(
            EnvironmentContext.ENGINE_VERSION, System.getProperty("java.version", ""));
    return engine + "/" + version;
  }
}
