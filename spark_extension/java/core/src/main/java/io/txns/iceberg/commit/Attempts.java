package io.txns.iceberg.commit;

import io.txns.iceberg.log.Head;

/** What is known of the attempts to append one entry, as long as another one may follow. */
public final class Attempts {
  /** So often a commit adopts what strangers append before it goes on beside them. */
  private static final int MAX_ADOPTIONS = 8;

  private Head stoodOn;
  private Head stoodOnBefore;
  private RuntimeException cause;
  private long waitedMs;
  private int adoptions;

  /** Whether one may still end at rows of strangers: none of them may land then. */
  boolean adopts() {
    return stoodOn == null && adoptions < MAX_ADOPTIONS;
  }

  /** One has ended at rows of strangers, which are to be adopted first. */
  void adopting() {
    adoptions++;
  }

  /** For how long they have waited for others, in ms. */
  public long waitedMs() {
    return waitedMs;
  }

  /** They have waited for others once more. */
  void waited(long forMs) {
    waitedMs += forMs;
  }

  /** The head that attempts stood on which may still land; null where none may. */
  Head stoodOn() {
    return stoodOn;
  }

  /** Whether one may still land, or has: nothing that they need may be deleted. */
  public boolean mayLand() {
    return stoodOn != null;
  }

  /** Note an attempt before it is made: its leader may be stopped in the swap. */
  void trying(Head head) {
    stoodOnBefore = stoodOn;
    stoodOn = head.withoutRows();
    cause = null;
  }

  /** Nothing was sent of the attempt that was noted last. */
  void notSent() {
    stoodOn = stoodOnBefore;
  }

  /** The attempt that was noted last was not won, says the catalog, which may be false. */
  void notWon(RuntimeException why) {
    cause = why;
  }

  /**
   * Why the last one was not won, as the catalog says; a reason of the caller's where it does not.
   */
  Throwable causeOr(Throwable reason) {
    return cause == null ? reason : cause;
  }

  /** A head that does not hold the entry is past what the attempt asserted, or is not. */
  void settle(Head head) {
    if (stoodOn != null && head.isPast(stoodOn)) {
      settled();
    }
  }

  void settled() {
    stoodOn = null;
  }
}
