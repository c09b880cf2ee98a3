package io.txns.iceberg.table;

import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.DefaultPlaces;
import io.txns.iceberg.meta.Places;
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
import org.apache.iceberg.exceptions.AlreadyExistsException;
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
              "a table of transactions stands at its catalog's own place for its name: leave the"
                  + " place out, or name a folder above it in the catalog option %s, here and"
                  + " wherever it is applied; place=`%s` table=`%s`",
              OPTION, place.get(), table));
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
      throw TxnException.quarantined(
          table,
          String.format(
              "a logged change puts it at a place that is not its catalog's own for its name, and"
                  + " that this process does not allow; place=`%s`",
              place.get()),
          String.format(
              "look who has written the commit table; where the place is right, name a folder above"
                  + " it in the catalog option %s, and apply again; else `txns recover --void %d`"
                  + " takes the entry out of the log",
              OPTION, commitTs));
    }
  }

  /** The first place where a change puts a table, and may not. */
  public Optional<String> forbidden(
      TableIdentifier table, TableMetadata base, List<MetadataUpdate> updates) {
    Places.Moves moves = Places.Moves.of(base, updates);
    List<String> named = config.get().createLocations();
    return moves
        .elsewhere(table.name(), named, isOwn -> anyFolder(table, base == null, isOwn))
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
  private boolean anyFolder(TableIdentifier table, boolean creates, Predicate<String> isOwn) {
    Set<String> folders =
        known.computeIfAbsent(table.namespace(), any -> ConcurrentHashMap.newKeySet());
    // Whoever may write the log alone does not move a namespace.
    return folders.stream().anyMatch(isOwn)
        || matches(DefaultPlaces.ofNamespace(delegate, table.namespace()), table, isOwn)
        || matches(planned(table, creates), table, isOwn);
  }

  private boolean matches(Set<String> folders, TableIdentifier table, Predicate<String> isOwn) {
    known.get(table.namespace()).addAll(folders);
    return folders.stream().anyMatch(isOwn);
  }

  /** The folders in which the catalog itself puts a table: its rules are its own. */
  private Set<String> planned(TableIdentifier table, boolean creates) {
    try {
      return DefaultPlaces.planned(delegate, table);
    } catch (AlreadyExistsException e) {
      if (creates) {
        throw e;
      }
      return Set.of();
    }
  }
}
