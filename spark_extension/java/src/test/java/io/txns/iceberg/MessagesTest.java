package io.txns.iceberg;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Path;
import java.util.function.UnaryOperator;
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

  private static void check(String what, UnaryOperator<String> written) throws Exception {
    Path golden = Path.of("../../docs/golden/messages.json");
    JsonNode cases = new ObjectMapper().readTree(golden.toFile()).get(what);
    assertThat(cases).isNotEmpty();
    for (JsonNode pair : cases) {
      assertThat(written.apply(pair.get(0).asText())).isEqualTo(pair.get(1).asText());
    }
  }
}
