package io.txns.spark.session;

import io.txns.iceberg.catalog.ReadMoment;
import io.txns.spark.compat.Planning;
import java.util.Collections;
import java.util.Map;
import java.util.Optional;
import java.util.WeakHashMap;
import java.util.function.Supplier;

/**
 * When the queries of one catalog's session read it, outside a transaction: all tables of an
 * analysis at one moment, and all of a run at one, which is the same where nothing was committed in
 * between. A query is forgotten with Spark's own object of it.
 */
public final class ReadMoments {
  private final Supplier<ReadMoment> now;
  private final Map<Object, ReadMoment> analyses = Collections.synchronizedMap(new WeakHashMap<>());
  private final Map<Object, ReadMoment> runs = Collections.synchronizedMap(new WeakHashMap<>());

  /**
   * @param now the moment of the newest head
   */
  public ReadMoments(Supplier<ReadMoment> now) {
    this.now = now;
  }

  /** The moment of the query that this thread plans; empty where it plans none. */
  public Optional<ReadMoment> ofThisThread() {
    return Planning.now()
        .map(planning -> planning.isAnalysed() ? run(planning) : analysis(planning));
  }

  private ReadMoment analysis(Planning planning) {
    return analyses.computeIfAbsent(planning.query(), query -> now.get());
  }

  private ReadMoment run(Planning planning) {
    ReadMoment analysed = analyses.remove(planning.query()); // it runs once
    return runs.computeIfAbsent(
        planning.query(), query -> analysed == null ? now.get() : analysed.later());
  }

  /** Everything is loaded anew. */
  public void forget() {
    analyses.clear();
    runs.clear();
  }
}
