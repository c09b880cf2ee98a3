package io.txns.iceberg.simulation;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.simulation.Mutation.Target;
import java.io.IOException;
import java.io.InputStream;
import java.util.List;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/** Whether there still is what mutations take away. */
class MutationsTest {
  static Stream<String> names() {
    return Mutations.all().stream().map(Mutation::name);
  }

  /** A target that is gone takes nothing away, and whoever runs seeds would not see it. */
  @ParameterizedTest
  @MethodSource("names")
  void whatAMutationTakesAwayIsThere(String name) throws IOException {
    List<Target> targets = Mutations.targets(name);

    assertThat(targets).isNotEmpty();
    for (String className : classNames(targets)) {
      byte[] code = code(className);
      assertThat(Mutating.of(className, code, targets)).isNotEqualTo(code);
    }
  }

  /** The JVM verifies a class when it links it, before it is initialised. */
  @Test
  void theClassesOfAllTargetsAreVerified() throws ClassNotFoundException {
    List<Target> all = Mutations.targets(Mutations.WATCHED);
    ClassLoader mutated = new RewritingClassLoader(System.getProperty("java.class.path"), all);

    assertThat(all).hasSizeGreaterThan(Mutations.all().size() / 2);
    for (String className : classNames(all)) {
      assertThat(Class.forName(className, true, mutated).getClassLoader()).isEqualTo(mutated);
    }
  }

  private static List<String> classNames(List<Target> targets) {
    return targets.stream().map(Target::inClass).distinct().toList();
  }

  @Test
  void eachSaysInAFewWordsWhatItTakesAway() {
    assertThat(Mutations.all()).allSatisfy(one -> assertThat(one.takenAway()).isNotBlank());
    assertThat(Mutations.all().stream().map(Mutation::name).collect(Collectors.toSet()))
        .hasSameSizeAs(Mutations.all())
        .doesNotContain(Mutations.WATCHED);
  }

  @ParameterizedTest
  @MethodSource("gone")
  void whatIsGoneIsToldLoudly(Target target) throws IOException {
    byte[] code = code(target.inClass());

    assertThatThrownBy(() -> Mutating.of(target.inClass(), code, List.of(target)))
        .isInstanceOf(IllegalStateException.class)
        .hasMessageContaining(target.key());
  }

  static Stream<Target> gone() {
    String method = "Swap append(Head, List)";
    return Stream.of(
        Mutation.method("log.CommitLog", "Swap append(Head)", Mutation.NOTHING),
        Mutation.call("log.CommitLog", method, "Head: boolean isThere()", Mutation.NOTHING),
        Mutation.method(
            "log.CommitLog$Next",
            "TableMetadata of(TableOperations, TableMetadata)",
            Mutation.NOTHING));
  }

  private static byte[] code(String className) throws IOException {
    String file = "/" + className.replace('.', '/') + ".class";
    try (InputStream code = MutationsTest.class.getResourceAsStream(file)) {
      return code.readAllBytes();
    }
  }
}
