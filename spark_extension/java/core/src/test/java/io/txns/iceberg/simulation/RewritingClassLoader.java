package io.txns.iceberg.simulation;

import java.io.File;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.net.MalformedURLException;
import java.net.URL;
import java.net.URLClassLoader;
import java.nio.file.Path;
import java.util.Arrays;

/** Loads the class path once more, what {@link Rewriting} concerns as it rewrites it. */
final class RewritingClassLoader extends URLClassLoader {
  RewritingClassLoader(String classPath) {
    super("simulated", urls(classPath), ClassLoader.getPlatformClassLoader());
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
      byte[] rewritten = Rewriting.of(code.readAllBytes());
      return defineClass(name, rewritten, 0, rewritten.length);
    } catch (IOException e) {
      throw new ClassNotFoundException(name, e);
    }
  }
}
