package io.txns.iceberg.commit;

import io.txns.iceberg.Isolation;
import io.txns.iceberg.TableNames;
import io.txns.iceberg.log.Change;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.LogState;
import io.txns.iceberg.log.LoggedChange;
import io.txns.iceberg.stage.ChangeBuilder;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.ReadSet;
import io.txns.iceberg.stage.StagedTable;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.function.Consumer;
import java.util.stream.Collectors;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What is to be committed.
 *
 * @param kind of the entry
 * @param key the idempotence key
 * @param readTs what everything was read at, in ms
 * @param bornMs when it began, in ms of the wall clock
 * @param isolation what is validated
 * @param comment the user's words
 * @param reads what was read
 * @param byFile whether only what meets in files clashes, and not all of one table
 * @param writes what was staged, by table; at least one
 * @param marks summary keys and values for the data tables' snapshots
 * @param leftovers of its attempts; whoever may commit again hands them on
 * @param judge throws what forbids it as of a state that it is validated against; {@link #ALLOWED}
 * @param turn how old it is, with the tries before it
 * @param adopter of an adoption how old who makes it is; null where a person does, who waits for
 *     nobody
 * @param met what its attempts have found of others; handed on as well
 */
public record CommitRequest(
    EntryKind kind,
    CommitGroup.Key key,
    long readTs,
    long bornMs,
    Isolation isolation,
    String comment,
    ReadSet reads,
    boolean byFile,
    Map<TableIdentifier, StagedTable> writes,
    Map<String, String> marks,
    Leftovers leftovers,
    Consumer<LogState> judge,
    Turn turn,
    Turns.Claim adopter,
    Meetings met) {
  /** The judge of what nothing forbids but what it clashes with. */
  public static final Consumer<LogState> ALLOWED = state -> {};

  /** How often who goes on beside strangers has reserved: to them he may have lost each time. */
  private static final int BESIDE_STRANGERS_FROM = 2;

  /** What has no tries: it is as old as what it was read at. */
  public CommitRequest(
      EntryKind kind,
      CommitGroup.Key key,
      long readTs,
      long bornMs,
      Isolation isolation,
      String comment,
      ReadSet reads,
      boolean byFile,
      Map<TableIdentifier, StagedTable> writes,
      Map<String, String> marks,
      Leftovers leftovers,
      Consumer<LogState> judge) {
    this(
        kind,
        key,
        readTs,
        bornMs,
        isolation,
        comment,
        reads,
        byFile,
        writes,
        marks,
        leftovers,
        judge,
        Turn.first(readTs),
        null,
        new Meetings());
  }

  /** The same adoption, made for who is as old as a claim says; null where it is made alone. */
  CommitRequest by(Turns.Claim claim) {
    return new CommitRequest(
        kind,
        key,
        readTs,
        bornMs,
        isolation,
        comment,
        reads,
        byFile,
        writes,
        marks,
        leftovers,
        judge,
        turn,
        claim == null ? adopting() : claim,
        met);
  }

  /**
   * How old an adoption is that it makes: as it is itself; an append like others. It does not wait
   * for what its own tries before have reserved, and takes that out.
   */
  Turns.Claim adopting() {
    return new Turns.Claim(
        turn.ticket(), key.txnId(), Set.of(), Turns.APPENDS_WAIT_FROM, null, leaves());
  }

  /** What is to be logged of a staged table, at a {@code commit_ts} in ms. */
  ChangeBuilder.Built built(StagedTable staged, long commitTs) {
    return ChangeBuilder.build(staged, key.txnId(), commitTs, marks);
  }

  /** Whether strangers' rows that it meets come first; else it goes on beside them. */
  boolean adopts() {
    return turn.number() < BESIDE_STRANGERS_FROM;
  }

  /**
   * For whom it waits: for nobody where it is no transaction; a blind append cannot lose, so it
   * waits for those alone who have lost again and again. What its tries before have reserved it
   * takes out; its own is out with its entry, which an abort is not.
   */
  Turns.Claim claim() {
    if (adopter != null) {
      return adopter.forTables(uuids());
    }
    if (kind != EntryKind.COMMIT) {
      return Turns.Claim.leaving(leaves());
    }
    boolean appends = writes.values().stream().allMatch(one -> one.isAppendOnly());
    int waitsFrom = appends && reads.isBlind() ? Turns.APPENDS_WAIT_FROM : 1;
    return new Turns.Claim(turn.ticket(), key.txnId(), uuids(), waitsFrom, null, leaves());
  }

  private Set<String> leaves() {
    return turn.held().stream().filter(id -> !id.equals(key.txnId())).collect(Collectors.toSet());
  }

  private Set<String> uuids() {
    return writes.values().stream()
        .filter(one -> !one.isCreate())
        .map(one -> TableNames.uuid(one.base()))
        .collect(Collectors.toSet());
  }

  /** A change of its entry, which is not made yet; {@code commitTs} in ms. */
  LoggedChange probe(Change change, long commitTs) {
    Entry entry =
        new Entry(
            kind,
            commitTs,
            0,
            commitTs,
            0,
            readTs,
            key.txnId(),
            isolation,
            "",
            "",
            List.of(change),
            Entry.Payload.NONE);
    return new LoggedChange(entry, change);
  }
}
