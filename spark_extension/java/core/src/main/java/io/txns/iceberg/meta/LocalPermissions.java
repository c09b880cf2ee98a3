package io.txns.iceberg.meta;

import java.io.FileNotFoundException;
import java.io.IOException;
import java.nio.file.AccessDeniedException;
import java.nio.file.FileSystemException;
import java.nio.file.Files;
import java.nio.file.InvalidPathException;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.exceptions.RuntimeIOException;
import org.apache.iceberg.io.FileIO;

/**
 * What permissions of local files keep a process from. Hadoop does not tell: what lies in a folder
 * where this process may not look it calls missing, which is another matter, and what may not be
 * written has the same error as a folder that is not there.
 */
public final class LocalPermissions {
  /** Iceberg's words for what became of a file end with its location. */
  private static final Pattern LOCATION = Pattern.compile(": ((?:file:)?/.*)$", Pattern.DOTALL);

  private static final Pattern LOCAL = Pattern.compile("(?:file:)?/+([^/].*)", Pattern.DOTALL);

  private LocalPermissions() {}

  /**
   * Load a table.
   *
   * @throws NotFoundException its metadata file is gone
   * @throws RuntimeIOException permission to read it is denied
   */
  public static Table load(Catalog catalog, TableIdentifier table) {
    return load(() -> catalog.loadTable(table));
  }

  /** The same, of who loads it in another way. */
  public static Table load(Supplier<Table> load) {
    try {
      return load.get();
    } catch (NotFoundException e) {
      refuse(e);
      throw e;
    }
  }

  /** Refuse to take a file for gone that was not found, and may be there. */
  public static void refuse(NotFoundException e) {
    locationIn(e)
        .filter(LocalPermissions::mayBeThere)
        .ifPresent(
            location -> {
              throw denied(location, e);
            });
  }

  /** Whether a file is missing; where it may be there, permission is denied. */
  public static boolean isMissing(FileIO io, String location) {
    boolean found = io.newInputFile(location).exists();
    if (!found && mayBeThere(location)) {
      throw denied(location, null);
    }
    return !found;
  }

  /** Whether what could not be written lies in a folder where this process may not write. */
  public static boolean mayNotWrite(Throwable e) {
    return e.getCause() instanceof IOException cause
        && locationIn(e)
            .filter(location -> isLocal(location, cause))
            .flatMap(LocalPermissions::path)
            .filter(LocalPermissions::isInReadOnlyFolder)
            .isPresent();
  }

  /**
   * Whether an error is one of local files. A path without a scheme may be HDFS's, too, which fails
   * for a while where there is no such folder here.
   */
  private static boolean isLocal(String location, IOException cause) {
    String told = String.valueOf(cause.getMessage());
    boolean opened = cause instanceof FileNotFoundException && told.matches("(?s)/.* \\(.*\\)");
    boolean created = cause instanceof FileSystemException; // by Java itself, as its folder is
    return location.startsWith("file:") || opened || created || told.contains("cwd=file:/");
  }

  private static boolean isInReadOnlyFolder(Path path) {
    Path folder = path.getParent();
    while (folder != null && Files.notExists(folder)) {
      folder = folder.getParent();
    }
    return folder != null && !Files.isWritable(folder);
  }

  private static boolean mayBeThere(String location) {
    return path(location)
        .filter(path -> !Files.notExists(path) && !Files.isReadable(path))
        .isPresent();
  }

  private static Optional<String> locationIn(Throwable e) {
    Matcher found = LOCATION.matcher(String.valueOf(e.getMessage()));
    return found.find() ? Optional.of(found.group(1)) : Optional.empty();
  }

  /** A location as a local path; empty for what is not local. */
  private static Optional<Path> path(String location) {
    Matcher local = LOCAL.matcher(location);
    try {
      return local.matches() ? Optional.of(Path.of("/" + local.group(1))) : Optional.empty();
    } catch (InvalidPathException e) {
      return Optional.empty();
    }
  }

  private static RuntimeException denied(String location, NotFoundException cause) {
    AccessDeniedException denied = new AccessDeniedException(location);
    if (cause != null) {
      denied.initCause(cause);
    }
    return new RuntimeIOException(
        denied, "permission denied: this process may not look there; file=`%s`", location);
  }
}
