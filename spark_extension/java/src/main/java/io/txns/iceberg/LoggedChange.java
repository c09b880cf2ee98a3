package io.txns.iceberg;

/** A change together with the entry it belongs to. */
record LoggedChange(Entry entry, Change change) {
  long commitTs() {
    return entry.commitTs();
  }
}
