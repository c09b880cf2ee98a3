package io.txns.iceberg.meta;

import java.util.Optional;

/** A catalog that moves several of its rows at once in a way of its own. */
public interface HasRows {
  Optional<Rows> rows();
}
