package io.txns.iceberg;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.PrintWriter;
import java.io.StringWriter;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.function.UnaryOperator;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Secrets and control characters in messages: the cases that Python has, too. */
class MessagesTest {

  @Test
  void secretsAreMasked() throws Exception {
    check("masked", Messages::masked);
  }

  @Test
  void controlCharactersAreEscapes() throws Exception {
    check("printable", Messages::printable);
  }

  @Test
  void errorsAreBoth() {
    TxnException e = TxnException.unsupported("no `a\u001b[2Jb`: uri=x://mara:s3cret@host");
    assertThat(e).hasMessage("no `a\\x1b[2Jb`: uri=x://mara:***@host");
  }

  /** Over Thrift the text is all that arrives, and who asks for the outcome takes it from there. */
  @Test
  void anIdThatLooksLikeASecretStays() {
    assertThat(TxnException.commitStateUnknown("job:17@eu", null))
        .hasMessageContaining("BEGIN ID 'job:17@eu'")
        .hasMessageContaining("txn=`job:17@eu`");
  }

  /** What a catalog says of a failure may hold its own options. */
  @Test
  void aLoggedFailureShowsNoSecret() {
    Exception cause = new IllegalStateException("jdbc:x://mara:s3cret@host");
    Exception failure = new RuntimeException("password=s3cret", cause);
    failure.addSuppressed(new RuntimeException("token=s3cret"));
    StringWriter shown = new StringWriter();
    LoggedFailure.of(failure).printStackTrace(new PrintWriter(shown));
    assertThat(shown.toString())
        .startsWith("java.lang.RuntimeException: password=***")
        .contains("Caused by: java.lang.IllegalStateException: jdbc:x://mara:***@host")
        .contains("token=***")
        .contains("at io.txns.iceberg.MessagesTest.aLoggedFailureShowsNoSecret")
        .doesNotContain("s3cret");
  }

  /** Every logger masks what it writes, in Spark's module, too. */
  @Test
  void loggersAreMadeInOnePlace() throws Exception {
    try (Stream<Path> sources = Files.walk(Path.of(".."))) {
      for (Path source :
          sources.filter(path -> path.toString().matches(".*/src/main/.*[.]java")).toList()) {
        boolean made = Files.readString(source).matches("(?s).*(LoggerFactory|LogManager).*");
        assertThat(made).as(source.toString()).isEqualTo(source.endsWith("TxnLogger.java"));
      }
    }
  }

  /** A record may have millions of characters: who reads it waits for none of them. */
  @Test
  void aLongTextIsShownByItsEnds() {
    for (String others : List.of("/:", "a.", "//a:", "x=", "token=a,b")) {
      String text = "password=hunter2 " + others.repeat(1_000_000 / others.length());
      long begun = System.nanoTime();
      String shown = Messages.of(text + " token=abc; cure");
      assertThat(Duration.ofNanos(System.nanoTime() - begun)).isLessThan(Duration.ofSeconds(5));
      assertThat(shown).startsWith("password=*** ").endsWith(" token=***; cure");
      assertThat(shown.length()).isLessThan(11_000);
    }
  }

  /** What tells that it is one may stand beyond the cut. */
  @Test
  void aSecretAtACutStaysOne() {
    String filling = "y".repeat(20_000);
    for (int at = 4980; at < 5021; at++) {
      String x = "x".repeat(at);
      assertThat(Messages.of(x + " password=hunter2 " + filling)).doesNotContain("hunter");
      assertThat(Messages.of(filling + " password=hunter2 " + x)).doesNotContain("hunter");
    }
  }

  /** A field of a line ends where it ends. */
  @Test
  void fieldsAreQuoted() throws Exception {
    check("fields", Messages::field);
  }

  private static void check(String what, UnaryOperator<String> written) throws Exception {
    Path golden = Path.of("../../../docs/golden/messages.json");
    JsonNode cases = new ObjectMapper().readTree(golden.toFile()).get(what);
    assertThat(cases).isNotEmpty();
    for (JsonNode pair : cases) {
      assertThat(written.apply(pair.get(0).asText())).isEqualTo(pair.get(1).asText());
    }
  }
}
