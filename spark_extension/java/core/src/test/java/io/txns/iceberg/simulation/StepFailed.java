package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;

/** What a step of I/O fails with, before a FileIO or a catalog says it in its own words. */
final class StepFailed extends RuntimeException {
  private final String type;

  StepFailed(String type, String message) {
    super(message);
    this.type = type;
  }

  StepFailed(JsonNode raised) {
    this(raised.path("type").asText(), raised.path("message").asText());
  }

  /** One of the protocol's types, as {@code CommitFailed}. */
  String type() {
    return type;
  }

  boolean is(String other) {
    return type.equals(other);
  }
}
