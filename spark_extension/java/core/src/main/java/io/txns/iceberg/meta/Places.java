package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.Snapshot;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableProperties;

/**
 * Where files of a table lie: by its location, its properties, and what it has already; pure. Paths
 * are compared as they are written, but for the ways to write one.
 */
public final class Places {
  private static final Pattern SCHEME =
      Pattern.compile("([A-Za-z][A-Za-z0-9+.-]*):(.*)", Pattern.DOTALL);
  private static final Map<String, String> SAME_SCHEMES = Map.of("s3a", "s3", "s3n", "s3");

  private Places() {}

  /** Whether a file lies below a folder; what has {@code ..} in it lies below none. */
  public static boolean isBelow(String path, String folder) {
    return !List.of(path.split("/", -1)).contains("..")
        && plain(path).startsWith(plain(folder) + "/");
  }

  /** A location in one way: s3 and s3a are one file, and so are file:/, file:/// and /. */
  public static String plain(String location) {
    Matcher match = SCHEME.matcher(location);
    boolean hasScheme = match.matches();
    String scheme = hasScheme ? match.group(1).toLowerCase(Locale.ROOT) : "file";
    List<String> parts = new ArrayList<>();
    for (String part : (hasScheme ? match.group(2) : location).split("/")) {
      if (part.equals("..")) {
        parts.remove(Math.max(parts.size() - 1, 0));
      } else if (!part.isEmpty() && !part.equals(".")) {
        parts.add(part);
      }
    }
    StringBuilder plain = new StringBuilder(SAME_SCHEMES.getOrDefault(scheme, scheme)).append(':');
    parts.forEach(part -> plain.append('/').append(part));
    return plain.toString();
  }

  /**
   * The manifest lists that updates add and that lie where the table has none.
   *
   * <p>It has them below its metadata folder, that which the updates themselves give it, and where
   * those of its snapshots lie: somebody may have moved it since a snapshot was staged.
   *
   * @param base the table; null for one that the updates create
   * @param updates what is laid over it
   */
  public static List<String> misplacedLists(TableMetadata base, List<MetadataUpdate> updates) {
    Set<String> own = metadataFolders(base, updates);
    List<String> left =
        AddedSnapshots.of(updates).stream()
            .map(Snapshot::manifestListLocation)
            .filter(path -> own.stream().noneMatch(folder -> isBelow(path, folder)))
            .toList();
    if (left.isEmpty() || base == null) {
      return left;
    }
    Set<String> known = new LinkedHashSet<>();
    for (Snapshot snapshot : base.snapshots()) {
      String path = snapshot.manifestListLocation();
      if (path != null && path.contains("/")) {
        known.add(path.substring(0, path.lastIndexOf('/')));
      }
    }
    return left.stream()
        .filter(path -> known.stream().noneMatch(folder -> isBelow(path, folder)))
        .toList();
  }

  private static Set<String> metadataFolders(TableMetadata base, List<MetadataUpdate> updates) {
    Set<String> folders = new LinkedHashSet<>();
    String location = base == null ? null : base.location();
    Map<String, String> properties = new HashMap<>(base == null ? Map.of() : base.properties());
    add(folders, location, properties);
    for (MetadataUpdate update : updates) {
      if (update instanceof MetadataUpdate.SetLocation set) {
        location = set.location();
      } else if (update instanceof MetadataUpdate.SetProperties set) {
        properties.putAll(set.updated());
      } else if (update instanceof MetadataUpdate.RemoveProperties remove) {
        properties.keySet().removeAll(remove.removed());
      } else {
        continue;
      }
      add(folders, location, properties);
    }
    return folders;
  }

  /** Where every library writes a table's manifest lists. */
  private static void add(Set<String> folders, String location, Map<String, String> properties) {
    String path = properties.get(TableProperties.WRITE_METADATA_LOCATION);
    if (path != null && !path.isEmpty()) {
      folders.add(path);
    } else if (location != null) {
      folders.add(location + "/metadata");
    }
  }
}
