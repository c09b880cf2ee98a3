package io.txns.iceberg.simulation;

/** What a forged property of the commit table names: whoever makes one has run others' code. */
public final class ForgedCode {
  /** No exception: what an upkeep comes to that tries again later is a warning alone. */
  public ForgedCode() {
    throw new AssertionError("somebody has run what a property of the commit table names");
  }
}
