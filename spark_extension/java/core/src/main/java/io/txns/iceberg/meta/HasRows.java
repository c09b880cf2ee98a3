package io.txns.iceberg.meta;

/** A catalog that moves several of its rows at once in a way of its own. */
public interface HasRows {
  Rows rows();
}
