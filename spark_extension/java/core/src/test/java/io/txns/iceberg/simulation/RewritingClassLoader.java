package io.txns.iceberg.simulation;

import io.txns.iceberg.simulation.Mutation.Target;
import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;

/**
 * Loads the class path once more, what {@link Rewriting} concerns as it rewrites it, without a
 * protection where there is a mutation.
 */
final class RewritingClassLoader extends URLClassLoader {
  private final List<Target> mutated;

  /**
   * @param mutated targets of a mutation; empty for none
   */
  RewritingClassLoader(String classPath, List<Target> mutated) {
    super("simulated", urls(classPath), ClassLoader.getPlatformClassLoader());
    this.mutated = mutated;
  }

  private static URL[] urls(String classPath) {
    return Arrays.stream(classPath.split(File.pathSeparator))
        .map(RewritingClassLoader::url)
        .toArray(URL[]::new);
  }

  private static URL url(String entry) {
    try {
      return Path.of(entry).toUri().toURL();
    } catch (MalformedURLException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  protected Class<?> findClass(String name) throws ClassNotFoundException {
    if (!Rewriting.concerns(name)) {
      return super.findClass(name);
    }
    try (InputStream code = getResourceAsStream(name.replace('.', '/') + ".class")) {
      if (code == null) {
        throw new ClassNotFoundException(name);
      }
      byte[] rewritten = Rewriting.of(Mutating.of(name, code.readAllBytes(), mutated));
      return defineClass(name, rewritten, 0, rewritten.length);
    } catch (IOException e) {
      throw new ClassNotFoundException(name, e);
    }
  }
}
