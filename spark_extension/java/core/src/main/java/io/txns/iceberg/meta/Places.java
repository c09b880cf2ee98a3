package io.txns.iceberg.meta;

import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
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

  private static final Pattern UUID =
      Pattern.compile("[0-9a-f]{32}|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}");

  /** What catalogs add to a table's name that are to give each table a place of its own. */
  private static final Pattern UNIQUE = Pattern.compile("[-_](" + UUID.pattern() + ")");

  private static final Pattern UNIQUE_NAME =
      Pattern.compile("(.+)" + UNIQUE.pattern(), Pattern.DOTALL);

  private static final String BY_UUID = "/*";

  /**
   * The properties that say where a table's files are written, and what its folder has without. Of
   * data there are three, the second and third of which go for versions of before.
   */
  public static final Map<String, String> PATHS = paths();

  private static final Pattern DOT = Pattern.compile("%2e", Pattern.CASE_INSENSITIVE);

  private Places() {}

  @SuppressWarnings("deprecation") // whoever reads them writes by them
  private static Map<String, String> paths() {
    Map<String, String> paths = new LinkedHashMap<>();
    paths.put(TableProperties.WRITE_METADATA_LOCATION, "metadata");
    paths.put(TableProperties.WRITE_DATA_LOCATION, "data");
    paths.put(TableProperties.OBJECT_STORE_PATH, "data");
    paths.put(TableProperties.WRITE_FOLDER_STORAGE_LOCATION, "data");
    return Collections.unmodifiableMap(paths);
  }

  /**
   * Whether a file lies below a folder; what has {@code ..} in it, be it {@code %2e%2e}, lies below
   * none.
   */
  public static boolean isBelow(String path, String folder) {
    return !goesUp(path) && plain(path).startsWith(plain(folder) + "/");
  }

  /** Whether a place is a folder, or lies below it; see {@link #isBelow}. */
  public static boolean isAtOrBelow(String path, String folder) {
    return isBelow(path, folder) || same(path, folder);
  }

  /** Whether two places are one; what has {@code ..} in it is none. */
  public static boolean same(String one, String other) {
    return !goesUp(one) && plain(one).equals(plain(other));
  }

  private static boolean goesUp(String path) {
    return List.of(DOT.matcher(path).replaceAll(".").split("[/\\\\]", -1)).contains("..");
  }

  /**
   * Whether a place is that of a table's name in a folder, be it made unique with an uuid. Or an
   * uuid alone, in a folder with {@code /*} behind it ({@link #ownFolders}).
   */
  private static boolean isOwn(String path, String folder, String name) {
    boolean byUuid = folder.endsWith(BY_UUID);
    String above = byUuid ? folder.substring(0, folder.length() - BY_UUID.length()) : folder;
    String last = last(path);
    if (goesUp(path) || !parent(path).equals(plain(above))) {
      return false;
    }
    return last.equals(name)
        || (byUuid && UUID.matcher(last).matches())
        || (last.startsWith(name) && UNIQUE.matcher(last.substring(name.length())).matches());
  }

  /**
   * The name of the other table of the namespace that may stand at a place of a table's own: the
   * one may be called as the other one's place is, which an uuid made unique.
   */
  public static Optional<String> otherName(String place, String name) {
    String last = last(place);
    if (!last.equals(name)) {
      return Optional.of(last);
    }
    Matcher named = UNIQUE_NAME.matcher(name);
    return named.matches() ? Optional.of(named.group(1)) : Optional.empty();
  }

  /**
   * Whether a file lies below that of a table's name in a folder, as {@link #isOwn} says what that
   * is.
   */
  public static boolean isBelowOwn(String path, String folder, String name) {
    boolean byUuid = folder.endsWith(BY_UUID);
    String above = plain(byUuid ? folder.substring(0, folder.length() - BY_UUID.length()) : folder);
    if (!isBelow(path, above)) {
      return false;
    }
    String[] within = plain(path).substring(above.length() + 1).split("/", 2);
    return within.length > 1 && isOwn(above + "/" + within[0], folder, name);
  }

  /** Whether a catalog calls the tables of a folder by uuids alone; see {@link #isOwn}. */
  public static boolean isByUuid(String folder) {
    return folder.endsWith(BY_UUID);
  }

  /**
   * Whether a file lies below the place of a table's uuid, in a folder whose tables are called so:
   * any other uuid there is another table's.
   */
  public static boolean isBelowUuid(String path, String folder, String uuid) {
    if (!isByUuid(folder) || uuid.isEmpty()) {
      return false;
    }
    String above = folder.substring(0, folder.length() - BY_UUID.length());
    return isBelow(path, above + "/" + uuid) || isBelow(path, above + "/" + uuid.replace("-", ""));
  }

  /**
   * The folder that a place of a table's name lies in, as users write it; {@code s3://}, say, for
   * what is no more than a bucket.
   */
  public static String folderAbove(String place, String name) {
    String plain = plain(place);
    String within = "/" + name;
    String above =
        plain.endsWith(within)
            ? plain.substring(0, plain.length() - within.length())
            : parent(place);
    String scheme = above.substring(0, above.indexOf(':'));
    String path = above.substring(above.indexOf(':') + 1);
    return scheme + "://" + (scheme.equals("file") || path.isEmpty() ? path : path.substring(1));
  }

  private static String last(String location) {
    String place = plain(location);
    return place.substring(place.lastIndexOf('/') + 1);
  }

  /**
   * The folders in which a catalog puts tables that would put one at a place; with {@code /*}
   * behind them where it calls them by uuids alone, as some servers do.
   *
   * @param levels of the namespace
   */
  public static Set<String> ownFolders(String place, String... levels) {
    String byUuid = UUID.matcher(last(place)).matches() ? BY_UUID : "";
    return spellings(parent(place), levels).stream()
        .map(each -> each + byUuid)
        .collect(Collectors.toCollection(LinkedHashSet::new));
  }

  /** The folder that a place lies in, as {@link #plain} writes it. */
  private static String parent(String location) {
    String place = plain(location);
    return place.contains("/") ? place.substring(0, place.lastIndexOf('/')) : place;
  }

  /** A location in one way: s3 and s3a are one file, and so are file:/, file:/// and /. */
  public static String plain(String location) {
    Matcher match = SCHEME.matcher(location);
    boolean hasScheme = match.matches();
    String scheme = hasScheme ? match.group(1).toLowerCase(Locale.ROOT) : "file";
    List<String> parts = new ArrayList<>();
    for (String part : (hasScheme ? match.group(2) : location).split("/")) {
      if (part.equals("..")) {
        parts.subList(Math.max(parts.size() - 1, 0), parts.size()).clear();
      } else if (!part.isEmpty() && !part.equals(".")) {
        parts.add(part);
      }
    }
    StringBuilder plain = new StringBuilder(SAME_SCHEMES.getOrDefault(scheme, scheme)).append(':');
    parts.forEach(part -> plain.append('/').append(part));
    return plain.toString();
  }

  /**
   * A namespace's folder as libraries write it: its levels joined by slashes, or by dots.
   *
   * @param levels of the namespace
   */
  public static Set<String> spellings(String folder, String... levels) {
    String plain = plain(folder);
    String slashes = String.join("/", levels);
    String dots = String.join(".", levels);
    for (String suffix : List.of(slashes, dots)) {
      if (plain.endsWith("/" + suffix)) {
        String above = plain.substring(0, plain.length() - suffix.length());
        return new LinkedHashSet<>(List.of(above + slashes, above + dots));
      }
    }
    return Set.of(plain);
  }

  /**
   * Where updates put a table, of what it does not have yet.
   *
   * @param locations its places, one after the other
   * @param paths its folders of metadata and data that are not {@code metadata} and {@code data} in
   *     one of its places
   */
  public record Moves(List<String> locations, List<String> paths) {
    /**
     * Where updates put a table.
     *
     * @param base the table; null for one that the updates create
     */
    public static Moves of(TableMetadata base, List<MetadataUpdate> updates) {
      List<String> locations = new ArrayList<>();
      List<Map<String, String>> sets = new ArrayList<>();
      for (MetadataUpdate update : updates) {
        if (update instanceof MetadataUpdate.SetLocation set) {
          locations.add(set.location());
        } else if (update instanceof MetadataUpdate.SetProperties set) {
          sets.add(set.updated());
        }
      }
      String location = base == null ? null : base.location();
      List<String> stands = new ArrayList<>(locations);
      if (location != null) {
        stands.add(location);
      }
      locations.removeIf(one -> location != null && same(one, location));
      Map<String, String> known = base == null ? Map.of() : base.properties();
      return new Moves(List.copyOf(locations), paths(sets, known, stands));
    }

    private static List<String> paths(
        List<Map<String, String>> sets, Map<String, String> known, List<String> stands) {
      List<String> paths = new ArrayList<>();
      for (Map<String, String> set : sets) {
        PATHS.forEach(
            (key, own) -> {
              String path = set.get(key);
              if (path != null
                  && !path.equals(known.get(key))
                  && stands.stream().noneMatch(one -> same(path, one + "/" + own))) {
                paths.add(path);
              }
            });
      }
      return List.copyOf(paths);
    }

    /**
     * The first place that is neither the catalog's own for a table's name nor allowed.
     *
     * @param name the table's, without its namespace
     * @param allowed folders below which any place will do
     * @param own whether one of the catalog's own folders is as it asks
     */
    public Optional<String> elsewhere(
        String name, List<String> allowed, Predicate<Predicate<String>> own) {
      Predicate<String> isNamed =
          place -> allowed.stream().anyMatch(folder -> isAtOrBelow(place, folder));
      Predicate<String> isDefault = place -> own.test(folder -> isOwn(place, folder, name));
      return Stream.concat(
              paths.stream().filter(isNamed.negate()),
              locations.stream().filter(isNamed.or(isDefault).negate()))
          .findFirst();
    }
  }

  /**
   * The manifest lists and statistics that updates name and that lie where the table has none.
   *
   * <p>It has them below its metadata folder, that which the updates themselves give it, and where
   * the lists of its snapshots lie: somebody may have moved it since a snapshot was staged.
   *
   * @param base the table; null for one that the updates create
   * @param updates what is laid over it
   */
  public static List<String> misplacedFiles(TableMetadata base, List<MetadataUpdate> updates) {
    Set<String> own = metadataFolders(base, updates);
    List<String> left =
        updates.stream()
            .map(Places::named)
            .filter(Objects::nonNull)
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

  /** The file that an update names, which who expires a snapshot deletes; null for none. */
  private static String named(MetadataUpdate update) {
    if (update instanceof MetadataUpdate.AddSnapshot added) {
      return added.snapshot().manifestListLocation();
    }
    if (update instanceof MetadataUpdate.SetStatistics set) {
      return set.statisticsFile().path();
    }
    if (update instanceof MetadataUpdate.SetPartitionStatistics set) {
      return set.partitionStatisticsFile().path();
    }
    return null;
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
