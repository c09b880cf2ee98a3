package io.txns.iceberg.log;

import io.txns.iceberg.Committed;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.LogSettings;
import io.txns.iceberg.Winner;
import java.nio.charset.StandardCharsets;
import java.util.List;
import java.util.Objects;
import java.util.Optional;
import java.util.UUID;

/**
 * One record of the log: one snapshot of the commit table (docs/spec.md "Entry").
 *
 * @param kind what it is
 * @param commitTs logical timestamp in ms; 0 for {@link EntryKind#TIDY}, which carries none
 * @param prevTs the {@code commit_ts} of the entry before it; 0 for the first
 * @param upper the greatest {@code commit_ts} of the log after this record
 * @param tidiedUpto the greatest {@code commit_ts} that has left the head; 0 if none has
 * @param readTs the transaction's {@code read_ts} in ms
 * @param txnId in at most one entry for as long as ids are looked up (I8); aborts of it are none
 * @param isolation the level it was validated at
 * @param engine who wrote it, for people
 * @param comment the user's own words, or the empty string
 * @param changes what it does, one per table
 * @param payload where the {@code CommitTransactionRequest} is
 * @param settings those of {@link EntryKind#SETTINGS}, which the archive does not keep; else null
 * @param reserved who has reserved tables, as far as this record says; the archive keeps none
 */
public record Entry(
    EntryKind kind,
    long commitTs,
    long prevTs,
    long upper,
    long tidiedUpto,
    long readTs,
    String txnId,
    Isolation isolation,
    String engine,
    String comment,
    List<Change> changes,
    Payload payload,
    LogSettings settings,
    List<Reservation> reserved) {

  public Entry {
    Objects.requireNonNull(kind, "kind");
    Objects.requireNonNull(txnId, "txnId");
    Objects.requireNonNull(isolation, "isolation");
    changes = List.copyOf(changes);
    reserved = List.copyOf(reserved);
  }

  /** An entry that says nothing of reservations; see {@link #reserving}. */
  public Entry(
      EntryKind kind,
      long commitTs,
      long prevTs,
      long upper,
      long tidiedUpto,
      long readTs,
      String txnId,
      Isolation isolation,
      String engine,
      String comment,
      List<Change> changes,
      Payload payload,
      LogSettings settings) {
    this(
        kind,
        commitTs,
        prevTs,
        upper,
        tidiedUpto,
        readTs,
        txnId,
        isolation,
        engine,
        comment,
        changes,
        payload,
        settings,
        List.of());
  }

  /** An entry of any kind but that of settings. */
  public Entry(
      EntryKind kind,
      long commitTs,
      long prevTs,
      long upper,
      long tidiedUpto,
      long readTs,
      String txnId,
      Isolation isolation,
      String engine,
      String comment,
      List<Change> changes,
      Payload payload) {
    this(
        kind,
        commitTs,
        prevTs,
        upper,
        tidiedUpto,
        readTs,
        txnId,
        isolation,
        engine,
        comment,
        changes,
        payload,
        null);
  }

  /**
   * The bytes of the {@code CommitTransactionRequest}: inline, or in a file beside the commit
   * table's metadata, or none where there is nothing to apply.
   */
  public record Payload(String inline, String location, String sha256) {
    /** Nothing to apply. */
    public static final Payload NONE = new Payload(null, null, null);

    boolean isNone() {
      return inline == null && location == null;
    }
  }

  /** It, saying who has reserved tables. */
  public Entry reserving(List<Reservation> reservations) {
    return new Entry(
        kind,
        commitTs,
        prevTs,
        upper,
        tidiedUpto,
        readTs,
        txnId,
        isolation,
        engine,
        comment,
        changes,
        payload,
        settings,
        reservations);
  }

  /** Whether it says that a try under its id was refused, and commits nothing. */
  public boolean isAbort() {
    return kind == EntryKind.ABORT;
  }

  /** The newest of the entries under one id that is no abort: its transaction's. */
  public static Optional<Entry> committed(List<Entry> under) {
    return under.stream().filter(entry -> !entry.isAbort()).reduce((earlier, later) -> later);
  }

  /** The newest abort's {@code commit_ts}, of the entries under one id; 0 without one. */
  public static long abortedTs(List<Entry> under) {
    return under.stream().filter(Entry::isAbort).mapToLong(Entry::commitTs).max().orElse(0);
  }

  /** Whether it has a payload: changes that have to be carried over to their tables. */
  public boolean applies() {
    return !payload.isNone();
  }

  /** Those of its changes that move {@code main} of their table. */
  public List<Change> moved() {
    return kind.isApplied() ? changes : List.of();
  }

  /**
   * Those of its changes that have to be carried over: one element of the payload each. What the
   * archive gives of an entry does not tell them from those that were born applied.
   */
  public List<Change> carried() {
    return moved().stream().filter(change -> !change.bornApplied()).toList();
  }

  /** One id for one deed, whoever does it: two that race make one entry (invariant I8). */
  public static String derivedId(String deed, String tableUuid, String what) {
    String name = deed + ":" + tableUuid + ":" + what;
    return UUID.nameUUIDFromBytes(name.getBytes(StandardCharsets.UTF_8)).toString();
  }

  /** It, for the error of a transaction that lost to it. */
  public Winner winner() {
    return new Winner(txnId, engine, comment);
  }

  /** What its transaction is told; {@code applied}: whether all its tables show it. */
  public Committed committed(boolean applied) {
    List<String> names = changes.stream().map(change -> change.table().toString()).toList();
    return new Committed(txnId, commitTs, readTs, applied, names);
  }
}
