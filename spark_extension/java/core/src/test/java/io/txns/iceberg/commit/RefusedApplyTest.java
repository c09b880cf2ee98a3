package io.txns.iceberg.commit;

import static io.txns.iceberg.Lake.append;
import static io.txns.iceberg.Lake.id;
import static org.assertj.core.api.Assertions.assertThat;

import io.txns.iceberg.BeforeCommit;
import io.txns.iceberg.Lake;
import io.txns.iceberg.TwoTables;
import io.txns.iceberg.TxnHandle;
import java.util.ArrayList;
import java.util.List;
import org.apache.iceberg.exceptions.CommitFailedException;
import org.apache.logging.log4j.Level;
import org.apache.logging.log4j.LogManager;
import org.apache.logging.log4j.core.LogEvent;
import org.apache.logging.log4j.core.Logger;
import org.apache.logging.log4j.core.appender.AbstractAppender;
import org.apache.logging.log4j.core.config.Property;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** What people are told of a change that no swap can apply. */
class RefusedApplyTest extends TwoTables {
  private final List<String> warnings = new ArrayList<>();
  private final Logger logger = (Logger) LogManager.getLogger(Applier.class);
  private final AbstractAppender appender =
      new AbstractAppender("warnings", null, null, true, Property.EMPTY_ARRAY) {
        @Override
        public void append(LogEvent event) {
          if (event.getLevel().isMoreSpecificThan(Level.WARN)) {
            warnings.add(event.getMessage().getFormattedMessage());
          }
        }
      };

  @BeforeEach
  void listen() {
    appender.start();
    logger.addAppender(appender);
  }

  @AfterEach
  void listenNoMore() {
    logger.removeAppender(appender);
  }

  /** A swap that is refused while nobody moves the table is no lost race: people see why. */
  @ParameterizedTest
  @ValueSource(booleans = {true, false})
  void whatNoSwapCanEndIsSaid(boolean moved) {
    append(lazy.catalog(() -> null).loadTable(id("shop.a")), 2);
    BeforeCommit refusing =
        new BeforeCommit(
            lake.catalog(),
            id("shop.a"),
            () -> {
              if (moved) {
                append(lake.catalog().loadTable(id("shop.a")), 9);
              }
              throw new CommitFailedException("not now, nor later");
            });
    TxnHandle refused = TxnHandle.open("lake", refusing, Lake.INLINE, Lake.CLOCK);
    assertThat(refused.apply()).isEqualTo(1);
    assertThat(warnings).hasSize(moved ? 0 : 1);
    assertThat(warnings).allMatch(each -> each.contains("shop.a stay unapplied"));
  }
}
