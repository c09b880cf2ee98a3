package io.txns.spark.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.txns.iceberg.TxnException;
import org.apache.spark.sql.internal.SQLConf;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class VariablesTest {

  @AfterEach
  void unset() {
    SQLConf.get().unsetConf("day");
    SQLConf.get().unsetConf("spark.sql.variable.substitute");
  }

  @Test
  void thoseThatAreSetAreReplaced() {
    SQLConf.get().setConfString("day", "7");
    assertThat(Variables.replaced("BEGIN ID 'a${day}'")).isEqualTo("BEGIN ID 'a7'");
    assertThatCode(() -> Variables.checkAreSet("BEGIN ID 'a${day}'")).doesNotThrowAnyException();
  }

  @ParameterizedTest
  @ValueSource(strings = {"BEGIN ID 'a${day}'", "BEGIN ID ${day}", "BEGIN ID '${env:NO_SUCH_DAY}'"})
  void thoseThatAreNotSetAreRefused(String sql) {
    assertThatThrownBy(() -> Variables.checkAreSet(sql))
        .isInstanceOf(TxnException.class)
        .hasMessageContaining("SET it before");
  }

  @Test
  void thoseThatSparkDoesNotReplaceAreRefused() {
    SQLConf.get().setConfString("day", "7");
    SQLConf.get().setConfString("spark.sql.variable.substitute", "false");
    assertThatThrownBy(() -> Variables.checkAreSet("BEGIN ID 'a${day}'"))
        .hasMessageContaining("${day} has no value");
  }

  @Test
  void whatIsNoVariableStays() {
    String sql = "BEGIN ID 'a\\u0024{day} ${a b} $day'";
    assertThatCode(() -> Variables.checkAreSet(sql)).doesNotThrowAnyException();
  }
}
