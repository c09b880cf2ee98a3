package io.txns.spark;

import io.txns.iceberg.meta.DelegatingOperations;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicReference;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableOperations;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * A catalog for Spark that refuses a swap of the commit table when it is told to, whose request is
 * on its way all the same: it lands when the log has been looked at once more.
 */
public final class RefusingCatalog extends JdbcCatalog {
  private static final AtomicBoolean REFUSES = new AtomicBoolean();
  private static final AtomicReference<Runnable> ON_ITS_WAY = new AtomicReference<>();

  /** Refuse the next swap. */
  public static void refuseOnce() {
    REFUSES.set(true);
  }

  @Override
  protected TableOperations newTableOps(TableIdentifier table) {
    TableOperations real = super.newTableOps(table);
    return table.equals(TableIdentifier.of("txns", "commits")) ? new Refusing(real) : real;
  }

  private static final class Refusing extends DelegatingOperations {
    private final TableOperations real;

    private Refusing(TableOperations real) {
      this.real = real;
    }

    @Override
    public TableOperations real() {
      return real;
    }

    @Override
    public TableMetadata current() {
      return real.current();
    }

    @Override
    public TableMetadata refresh() {
      TableMetadata seen = real.refresh();
      Runnable late = ON_ITS_WAY.getAndSet(null);
      if (late != null) {
        late.run();
      }
      return seen;
    }

    @Override
    public void commit(TableMetadata base, TableMetadata next) {
      if (REFUSES.getAndSet(false)) {
        ON_ITS_WAY.set(() -> real.commit(base, next));
        throw new ForbiddenException("the token has expired meanwhile");
      }
      real.commit(base, next);
    }
  }
}
