package io.txns.iceberg.meta;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Places that several names lead to; docs/golden has what a change may do with them. */
class PlacesTest {
  private static final String UUID = "-0f1e2d3c4b5a69788796a5b4c3d2e1f0";

  /** Whatever the name has: Java's dot stops at more characters than Python's. */
  @ParameterizedTest
  @ValueSource(strings = {"x", "x y", "x\u2028y", "x\r", "x\n"})
  void aNameThatEndsWithAnUuidHasAnotherOnesPlace(String name) {
    String unique = name + UUID;
    assertThat(Places.otherName("s3://lake/shop/" + unique, unique)).contains(name);
    assertThat(Places.otherName("s3://lake/shop/" + unique, name)).contains(unique);
    assertThat(Places.otherName("s3://lake/shop/" + name, name)).isEmpty();
  }
}
