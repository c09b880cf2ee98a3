package io.txns.iceberg.log;

import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.meta.DefaultPlaces;
import io.txns.iceberg.meta.Places;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.RESTException;

/**
 * Where a commit table stands by its catalog's own rules: nothing of it is removed elsewhere. Where
 * the table itself says that it stands is in the hands of whoever may write it, and others who
 * write it may remove files there (docs/spec.md, 3.3).
 */
final class OwnPlace {
  private static final TxnLogger LOG = TxnLogger.of(OwnPlace.class);

  private final Catalog delegate;
  private final TableIdentifier identifier;
  private final Supplier<List<String>> allowed;
  private Set<String> folders;

  OwnPlace(Catalog delegate, TableIdentifier identifier, Supplier<List<String>> allowed) {
    this.delegate = delegate;
    this.identifier = identifier;
    this.allowed = allowed;
  }

  /** Whether a file lies there, or below a folder that this process allows. */
  boolean has(String path) {
    return allowed.get().stream().anyMatch(folder -> Places.isBelow(path, folder))
        || folders().stream()
            .anyMatch(folder -> Places.isBelowOwn(path, folder, identifier.name()));
  }

  private synchronized Set<String> folders() {
    if (folders == null) {
      Set<String> found = new LinkedHashSet<>();
      found.addAll(DefaultPlaces.ofNamespace(delegate, identifier.namespace()));
      found.addAll(planned());
      folders = found; // whoever may write the log alone does not move it
    }
    return folders;
  }

  private Set<String> planned() {
    try {
      return DefaultPlaces.planned(delegate, identifier);
    } catch (AlreadyExistsException | RESTException e) {
      LOG.warn(
          "the server does not tell where the commit table belongs, so that its superseded files"
              + " stay: name its folder in the catalog option txns.create-locations",
          e);
      return Set.of();
    }
  }
}
