package io.txns.iceberg.log;

import io.txns.iceberg.TxnClock;
import io.txns.iceberg.TxnLogger;
import io.txns.iceberg.meta.DefaultPlaces;
import io.txns.iceberg.meta.Places;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.OptionalLong;
import java.util.Set;
import java.util.function.Supplier;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * Where a commit table stands by its catalog's own rules: nothing of it is removed elsewhere. Where
 * the table itself says that it stands is in the hands of whoever may write it, and others who
 * write it may remove files there (docs/spec.md, 3.3).
 */
final class OwnPlace {
  private static final TxnLogger LOG = TxnLogger.of(OwnPlace.class);

  /** How long a catalog that has failed is left alone, in ms: whoever tidies would wait for it. */
  static final long ASK_AGAIN_MS = 10 * 60 * 1000L;

  private final Catalog delegate;
  private final TableIdentifier identifier;
  private final TxnClock clock;
  private final Supplier<List<String>> allowed;
  private final Supplier<String> uuid;
  private final Set<String> known = new LinkedHashSet<>();
  private boolean allKnown;
  private OptionalLong askFromMs = OptionalLong.empty();

  /** {@code uuid} gives the commit table's, which nobody changes who writes it; "" for none. */
  OwnPlace(
      Catalog delegate,
      TableIdentifier identifier,
      TxnClock clock,
      Supplier<List<String>> allowed,
      Supplier<String> uuid) {
    this.uuid = uuid;
    this.delegate = delegate;
    this.identifier = identifier;
    this.clock = clock;
    this.allowed = allowed;
  }

  /**
   * Whether a file lies there, or below a folder that this process allows; empty while the catalog
   * does not tell: it is asked again later.
   */
  synchronized Optional<Boolean> has(String path) {
    if (allowed.get().stream().anyMatch(folder -> Places.isBelow(path, folder))
        || isBelowKnown(path)) {
      return Optional.of(true);
    }
    ask();
    if (isBelowKnown(path)) {
      return Optional.of(true);
    }
    return allKnown ? Optional.of(false) : Optional.empty();
  }

  private boolean isBelowKnown(String path) {
    return known.stream().anyMatch(folder -> isBelowOwn(path, folder));
  }

  private boolean isBelowOwn(String path, String folder) {
    return Places.isByUuid(folder)
        ? Places.isBelowUuid(path, folder, uuid.get())
        : Places.isBelowOwn(path, folder, identifier.name());
  }

  private void ask() {
    boolean waits = askFromMs.isPresent() && clock.elapsedMs() < askFromMs.getAsLong();
    if (allKnown || waits) {
      return;
    }
    try {
      // Whoever may write the log alone does not move it.
      known.addAll(DefaultPlaces.ofNamespace(delegate, identifier.namespace()));
      known.addAll(DefaultPlaces.planned(delegate, identifier));
      allKnown = true;
    } catch (RuntimeException e) {
      LOG.warn(
          "the catalog does not tell where the commit table belongs, so that its superseded files"
              + " stay until it does: it is asked again in 10 minutes; or name its folder in the"
              + " catalog option txns.create-locations",
          e);
      askFromMs = OptionalLong.of(clock.elapsedMs() + ASK_AGAIN_MS);
    }
  }
}
