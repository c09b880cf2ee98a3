package io.txns.iceberg.catalog;

import io.txns.iceberg.Committed;
import io.txns.iceberg.Isolation;
import io.txns.iceberg.TxnException;
import io.txns.iceberg.TxnMetrics;
import io.txns.iceberg.commit.Attempts;
import io.txns.iceberg.commit.CommitGroup;
import io.txns.iceberg.commit.CommitLoop;
import io.txns.iceberg.commit.CommitRequest;
import io.txns.iceberg.commit.Committer;
import io.txns.iceberg.commit.Meetings;
import io.txns.iceberg.commit.Turn;
import io.txns.iceberg.log.EntryKind;
import io.txns.iceberg.log.Head;
import io.txns.iceberg.stage.Leftovers;
import io.txns.iceberg.stage.StagedTable;
import io.txns.iceberg.stage.WriteSet;
import java.util.Map;
import java.util.Optional;
import org.apache.iceberg.catalog.TableIdentifier;

/**
 * The attempts of one transaction to commit, all under its id: what is known of them, and the files
 * that they have left.
 */
final class CommitAttempts {
  private final Committer committer;
  private final CommitLoop loop;
  private final Begun begun;
  private final WriteSet writeSet;
  private final Attempts known = new Attempts();
  private final Leftovers leftovers;
  private final Meetings met = new Meetings();

  CommitAttempts(
      Committer committer, CommitLoop loop, Leftovers leftovers, Begun begun, WriteSet writeSet) {
    this.committer = committer;
    this.loop = loop;
    this.leftovers = leftovers;
    this.begun = begun;
    this.writeSet = writeSet;
  }

  /** Count a commit that wrote nothing. */
  void countEmpty() {
    committer.metrics().count(TxnMetrics.Count.COMMITTED, 1);
  }

  /** Commit what is staged; see {@link Committer#commit}. */
  Committed commit(
      Map<TableIdentifier, StagedTable> changes, Isolation isolation, String comment, Turn turn) {
    return committer.commit(request(changes, isolation, comment, turn));
  }

  /**
   * Look whether what is staged can still be committed; see {@link Committer#checkStanding}. Where
   * another try under its id has committed, that is what its commit says.
   */
  void checkStanding(Map<TableIdentifier, StagedTable> changes, Isolation isolation, Head head) {
    CommitRequest request = request(changes, isolation, "", Turn.first(writeSet.readTs()));
    CommitGroup.Key key = request.key();
    boolean alone = begun.hasFreshId() || head.upper() <= key.sinceTs();
    if (alone || loop.find(head, key.txnId(), key.sinceTs()).isEmpty()) {
      committer.checkStanding(request, head);
    }
  }

  private CommitRequest request(
      Map<TableIdentifier, StagedTable> changes, Isolation isolation, String comment, Turn turn) {
    return new CommitRequest(
        EntryKind.COMMIT,
        key(),
        writeSet.readTs(),
        begun.bornMs(),
        isolation,
        comment,
        writeSet.reads(),
        begun.byFile(),
        changes,
        Map.of(),
        leftovers,
        CommitRequest.ALLOWED,
        turn,
        null,
        met);
  }

  private CommitGroup.Key key() {
    return new CommitGroup.Key(
        begun.id(),
        begun.hasFreshId() ? writeSet.head().upper() : writeSet.readTs(),
        begun.hasFreshId() ? CommitGroup.Origin.FRESH : CommitGroup.Origin.CALLERS,
        known);
  }

  /** For how long it has waited for others, in ms. */
  long waitedMs() {
    return known.waitedMs();
  }

  /** Whether one that was refused can still commit, as far as is known. */
  boolean mayLand() {
    return known.mayLand();
  }

  /**
   * Refuse to change what one that was refused may still land as.
   *
   * @throws TxnException 25000
   */
  void checkNoneMayLand() {
    if (mayLand()) {
      throw TxnException.invalidUsage(
          "25000",
          String.format(
              "a refused commit of the transaction may still land: COMMIT again, or ROLLBACK;"
                  + " txn=`%s`",
              begun.id()));
    }
  }

  /** Ask the log what became of them: the transaction where one has landed. */
  Optional<Committed> settle() {
    return loop.settle(key()).map(committer::committed);
  }

  /** Whether another try under the id has committed: nothing that was staged is needed. */
  boolean areOfAnotherTry() {
    return leftovers.areOfAnotherTry();
  }

  /** Remove what they have left: none has committed, nor will. */
  void removeLeftovers() {
    leftovers.removeAllBut(writeSet.staged().all());
  }
}
