package io.txns.iceberg.log;

import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.Lake;
import io.txns.iceberg.MovedClock;
import io.txns.iceberg.meta.Places;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.nio.file.Path;
import java.util.List;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ServiceUnavailableException;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Where a commit table belongs by its catalog's own rules, while that does not always answer. */
class OwnPlaceTest {
  private static final TableIdentifier LOG = Lake.id("txns.commits");

  @TempDir Path folder;
  private Lake lake;
  private String own;
  private final MovedClock clock = new MovedClock();
  private String failing;
  private int failed;

  @BeforeEach
  void open() {
    lake = new Lake(folder);
    lake.open().services().log().loadOrCreate();
    own = lake.catalog().loadTable(LOG).location();
  }

  /** 1. It fails. 2. It is left alone for a while. 3. It is asked again, and answers. */
  @ParameterizedTest
  @ValueSource(strings = {"loadNamespaceMetadata", "buildTable"})
  void aCatalogThatFailedOnceIsAskedAgain(String method) {
    OwnPlace place = new OwnPlace(wrapped(lake.catalog()), LOG, clock, List::of, () -> "");
    failing = method;
    for (int i = 0; i < 5; i++) {
      assertThat(place.has("file:///elsewhere/x.json")).isEmpty();
    }
    assertThat(failed).isEqualTo(1);
    clock.aheadMs += OwnPlace.ASK_AGAIN_MS;
    assertThat(place.has("file:///elsewhere/x.json")).isEmpty();
    assertThat(failed).isEqualTo(2);
    failing = null;
    clock.aheadMs += OwnPlace.ASK_AGAIN_MS;
    assertThat(place.has(own + "/metadata/x.json")).contains(true);
    assertThat(place.has("file:///elsewhere/x.json")).contains(false);
  }

  /** Any other uuid there is another table's, whose files a forged location would lead to. */
  @Test
  void whereTablesAreCalledByUuidsThatOfTheLogIsItsOwn() {
    String uuid = "5f1d9c5e-7a31-4c5c-9f0b-2f6f6f0c6a01";
    String other = "0b7c1d52-2f6e-4d0e-8d5a-91f3c2a8e702";
    String folder = "s3://lake/warehouse/*";
    for (String own : List.of(uuid, uuid.replace("-", ""))) {
      String path = "s3://lake/warehouse/" + own + "/metadata/x.json";
      assertThat(Places.isBelowUuid(path, folder, uuid)).isTrue();
      assertThat(Places.isBelowUuid(path, folder, other)).isFalse();
      assertThat(Places.isBelowUuid(path, folder, "")).isFalse();
    }
  }

  @Test
  void whatIsAllowedNeedsNoAnswer() {
    failing = "loadNamespaceMetadata";
    OwnPlace place =
        new OwnPlace(
            wrapped(lake.catalog()), LOG, clock, () -> List.of("file:///allowed"), () -> "");
    assertThat(place.has("file:///allowed/x.json")).contains(true);
    assertThat(failed).isZero();
  }

  private <T extends Catalog & SupportsNamespaces> Catalog wrapped(T real) {
    return (Catalog)
        Proxy.newProxyInstance(
            getClass().getClassLoader(),
            new Class<?>[] {Catalog.class, SupportsNamespaces.class},
            (proxy, method, arguments) -> {
              if (method.getName().equals(failing)) {
                failed++;
                throw new ServiceUnavailableException("503");
              }
              try {
                return method.invoke(real, arguments);
              } catch (InvocationTargetException e) {
                throw e.getCause();
              }
            });
  }
}
