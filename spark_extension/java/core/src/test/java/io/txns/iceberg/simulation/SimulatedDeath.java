package io.txns.iceberg.simulation;

/** The end of a simulated process, in the middle of a step; nothing of it runs any more. */
final class SimulatedDeath extends Error {
  SimulatedDeath() {
    super("the process died", null, false, false);
  }
}
