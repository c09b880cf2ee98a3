package io.txns.iceberg.log;

import java.util.Map;
import org.apache.iceberg.EnvironmentContext;

/** Who writes an entry, for people: the engine's name and version, as Iceberg knows them. */
public final class Engine {
  private Engine() {}

  public static String name() {
    Map<String, String> context = EnvironmentContext.get();
    String engine = context.getOrDefault(EnvironmentContext.ENGINE_NAME, "java");
    String version =
        context.getOrDefault(
            EnvironmentContext.ENGINE_VERSION, System.getProperty("java.version", ""));
    return engine + "/" + version;
  }
}
