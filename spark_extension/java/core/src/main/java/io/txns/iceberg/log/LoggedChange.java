package io.txns.iceberg.log;

/** A change together with the entry it belongs to. */
public record LoggedChange(Entry entry, Change change) {
  public long commitTs() {
    return entry.commitTs();
  }
}
