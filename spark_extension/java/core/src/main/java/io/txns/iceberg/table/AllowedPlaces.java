package io.txns.iceberg.table;

import io.txns.iceberg.TableNames;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.DefaultPlaces;
import io.txns.iceberg.meta.Places;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Predicate;
import java.util.function.Supplier;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.NoSuchTableException;

/**
 * Where tables may stand: where their catalog puts them, and where this process allows it. Whoever
 * carries a change out may write where its author may not (docs/spec.md, 7).
 */
public final class AllowedPlaces {
  private static final String OPTION = "txns.create-locations";

  private final Catalog delegate;
  private final Supplier<TxnConfig> config;
  private final Map<Namespace, Set<String>> known = new ConcurrentHashMap<>();

  public AllowedPlaces(Catalog delegate, Supplier<TxnConfig> config) {
    this.delegate = delegate;
    this.config = config;
  }

  /**
   * Refuse a user's change that puts a table where nobody would create it.
   *
   * @param base the table; null for a new one
   * @throws TxnException 0A000 with the place, and the option that allows it
   */
  public void refuseToStage(
      TableIdentifier table, TableMetadata base, List<MetadataUpdate> updates) {
    Optional<String> place = forbidden(table, base, updates);
    if (place.isPresent()) {
      throw TxnException.unsupported(
          String.format(
              "a table of transactions stands at its catalog's own place for its name%s%s, here and"
                  + " wherever it is applied; place=`%s` table=`%s`",
              ownPlace(table, place.get()), allowing(table, place.get()), place.get(), table));
    }
  }

  /** Why a place is none of a catalog's own for a name, and how to do without an option. */
  private static String ownPlace(TableIdentifier table, String place) {
    if (table.name().contains("/")) {
      return ", and a name with a slash has none: ";
    }
    if (Places.folderAbove(place, table.name()).endsWith("://")) {
      return ", and a bucket of a table's own, as S3 Tables gives it, is none: ";
    }
    return ": leave the place out, or ";
  }

  /** What allows a place, with a value that would do. */
  private static String allowing(TableIdentifier table, String place) {
    return String.format(
        "name a folder above it in the catalog option, by %s=%s, say",
        OPTION, Places.folderAbove(place, table.name()));
  }

  /**
   * Refuse to write a table that a change which is not applied yet has put elsewhere: before the
   * first file, since who has logged that may have no right to write there.
   *
   * @param stands the table as the catalog itself has it, which stands where it may; null for none
   * @param shown what is written on
   * @throws TxnException Quarantined with the place, and the option that allows it
   */
  public void refuseToWrite(TableIdentifier table, TableMetadata stands, TableMetadata shown) {
    Optional<String> place = misplaced(table, stands, shown);
    if (place.isPresent()) {
      throw TxnException.quarantined(
          table,
          String.format(
              "a logged change that is not applied puts it, or its files, at a place that is not its"
                  + " catalog's own for its name, and that this process does not allow: nothing is"
                  + " written there; place=`%s`",
              place.get()),
          String.format(
              "look who has written the commit table; where the place is right, %s; else `txns"
                  + " recover --void` takes the entry out of the log, with the commit_ts that `txns"
                  + " apply` tells",
              allowing(table, place.get())));
    }
  }

  /**
   * Refuse to carry a logged change out that puts a table elsewhere.
   *
   * @param base the table; null for a new one
   * @throws TxnException Quarantined with the place, and the option that allows it
   */
  public void refuseToApply(
      TableIdentifier table, TableMetadata base, List<MetadataUpdate> updates, long commitTs) {
    Optional<String> place = forbidden(table, base, updates);
    if (place.isPresent()) {
      if (base == null && DefaultPlaces.lacksNamespace(delegate, table.namespace())) {
        throw withoutNamespace(table, commitTs);
      }
      throw TxnException.quarantined(
          table,
          String.format(
              "a logged change puts it at a place that is not its catalog's own for its name, and"
                  + " that this process does not allow; place=`%s`",
              place.get()),
          String.format(
              "look who has written the commit table; where the place is right, %s, and apply again;"
                  + " else `txns recover --void %d` takes the entry out of the log",
              allowing(table, place.get()), commitTs));
    }
  }

  /** A creation without a namespace, which somebody may have dropped since, or forged. */
  public static TxnException withoutNamespace(TableIdentifier table, long commitTs) {
    return TxnException.quarantined(
        table,
        "a logged change creates it in a namespace that the catalog does not have: somebody has"
            + " dropped the namespace since, or has forged the entry",
        String.format(
            "create the namespace again and apply; else `txns recover --void %d --sound` takes the"
                + " entry out of the log, and what it has logged is lost; where nobody has dropped"
                + " it, look who has written the commit table: whoever may is trusted",
            commitTs));
  }

  /** The first place of a table that it has not in the catalog itself, and may not have. */
  public Optional<String> misplaced(
      TableIdentifier table, TableMetadata stands, TableMetadata shown) {
    TableMetadata base =
        stands != null && TableNames.uuid(stands).equals(TableNames.uuid(shown)) ? stands : null;
    Map<String, String> paths = new HashMap<>(shown.properties());
    paths.keySet().retainAll(Places.PATHS.keySet());
    return forbidden(
        table,
        base,
        List.of(
            new MetadataUpdate.SetLocation(shown.location()),
            new MetadataUpdate.SetProperties(paths)));
  }

  /** The first place where a change puts a table, and may not. */
  public Optional<String> forbidden(
      TableIdentifier table, TableMetadata base, List<MetadataUpdate> updates) {
    Places.Moves moves = Places.Moves.of(base, updates);
    List<String> named = config.get().createLocations();
    return moves
        .elsewhere(table.name(), named, isOwn -> anyFolder(table, isOwn))
        .or(() -> moves.locations().stream().filter(at -> isTaken(table, at, named)).findFirst());
  }

  /** Whether the one other table that is looked for has a place, which is not allowed. */
  private boolean isTaken(TableIdentifier table, String place, List<String> named) {
    Optional<String> other = Places.otherName(place, table.name());
    if (other.isEmpty() || named.stream().anyMatch(at -> Places.isAtOrBelow(place, at))) {
      return false;
    }
    try {
      TableIdentifier of = TableIdentifier.of(table.namespace(), other.get());
      return Places.same(delegate.loadTable(of).location(), place);
    } catch (NoSuchTableException e) {
      return false;
    }
  }

  /**
   * Whether one of the catalog's own folders will do: it is asked while those that are known will
   * not.
   *
   * <p>Several, since libraries that share a catalog go by rules of their own: by the namespace's
   * location, or by the warehouse.
   */
  private boolean anyFolder(TableIdentifier table, Predicate<String> isOwn) {
    Set<String> folders =
        known.computeIfAbsent(table.namespace(), any -> ConcurrentHashMap.newKeySet());
    // Whoever may write the log alone does not move a namespace.
    return folders.stream().anyMatch(isOwn)
        || matches(DefaultPlaces.ofNamespace(delegate, table.namespace()), table, isOwn)
        || matches(DefaultPlaces.planned(delegate, table), table, isOwn);
  }

  private boolean matches(Set<String> folders, TableIdentifier table, Predicate<String> isOwn) {
    known.get(table.namespace()).addAll(folders);
    return folders.stream().anyMatch(isOwn);
  }
}
