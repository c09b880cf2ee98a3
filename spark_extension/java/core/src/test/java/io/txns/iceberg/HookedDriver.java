package io.txns.iceberg;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Supplier;
import java.util.logging.Logger;
import org.apache.iceberg.jdbc.JdbcCatalog;

/**
 * SQLite's driver, with a test's own code in place of an update, an INSERT, a BEGIN or a COMMIT,
 * and behind a question: clients are Iceberg's own, and those that move several rows.
 */
public final class HookedDriver implements Driver {
  private static final String PREFIX = "jdbc:hooked:";
  private static Hook hook = Update::run;
  private static Hook insert = Update::run;
  private static Hook commit = Update::run;
  private static Hook begin = Update::run;
  private static Runnable asked = () -> {};
  private static final AtomicInteger ASKED = new AtomicInteger();

  static {
    try {
      DriverManager.registerDriver(new HookedDriver());
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  private HookedDriver() {}

  /** An update of the catalog's tables. */
  public interface Update {
    int run() throws SQLException;
  }

  /** What is done in place of an update, which it may run. */
  public interface Hook {
    int instead(Update update) throws SQLException;
  }

  /** A client of the lake's catalog, whose updates run as they are until there is a hook. */
  public static JdbcCatalog catalog(Lake lake) {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options(lake));
    return catalog;
  }

  /** The protocol over such a catalog, whose swaps move the log and its tables together. */
  public static TxnHandle atomic(Lake lake) {
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "atomic"));
    return open(lake, () -> config);
  }

  /** The same over a catalog with further options. */
  public static TxnHandle atomic(Lake lake, Map<String, String> more) {
    Map<String, String> options = options(lake);
    options.putAll(more);
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "atomic"));
    return TxnHandle.open("lake", options, catalog, () -> config, Lake.CLOCK);
  }

  /** How many statements with values there were of any client. */
  public static int asked() {
    return ASKED.get();
  }

  /** The protocol over such a catalog. */
  public static TxnHandle open(Lake lake, Supplier<TxnConfig> config) {
    return open(lake, config, Lake.CLOCK);
  }

  /** The same with a clock. */
  public static TxnHandle open(Lake lake, Supplier<TxnConfig> config, TxnClock clock) {
    return TxnHandle.open("lake", options(lake), catalog(lake), config, clock);
  }

  private static Map<String, String> options(Lake lake) {
    hook = Update::run;
    insert = Update::run;
    commit = Update::run;
    begin = Update::run;
    asked = () -> {};
    Map<String, String> options = new TreeMap<>(lake.options());
    options.compute("uri", (key, uri) -> PREFIX + uri.substring("jdbc:".length()));
    return options;
  }

  /** What is done in place of each update from now on. */
  public static void hook(Hook instead) {
    hook = instead;
  }

  /** What is done in place of each INSERT from now on. */
  public static void hookInsert(Hook instead) {
    insert = instead;
  }

  /** What is done in place of each COMMIT from now on, which gives nothing. */
  public static void hookCommit(Hook instead) {
    commit = instead;
  }

  /** What is done in place of each BEGIN from now on, which gives nothing. */
  public static void hookBegin(Hook instead) {
    begin = instead;
  }

  /** What is done behind each question from now on, before its answer is read. */
  public static void hookAsked(Runnable behind) {
    asked = behind;
  }

  @Override
  public Connection connect(String url, Properties info) throws SQLException {
    if (!acceptsURL(url)) {
      return null;
    }
    Connection real = DriverManager.getConnection("jdbc:" + url.substring(PREFIX.length()), info);
    return hooked(
        Connection.class,
        real,
        (name, args, call) -> {
          Object made = call.run();
          if (name.equals("createStatement")) {
            return committing((Statement) made);
          }
          if (!name.equals("prepareStatement")) {
            return made;
          }
          ASKED.incrementAndGet();
          String sql = "" + args[0];
          if (sql.startsWith("SELECT")) {
            return asking((PreparedStatement) made);
          }
          return sql.startsWith("UPDATE")
              ? changing((PreparedStatement) made, update -> hook.instead(update))
              : sql.startsWith("INSERT")
                  ? changing((PreparedStatement) made, update -> insert.instead(update))
                  : made;
        });
  }

  private static PreparedStatement changing(PreparedStatement real, Hook hook) {
    return hooked(
        PreparedStatement.class,
        real,
        (name, args, call) ->
            name.equals("executeUpdate") ? hook.instead(() -> (int) call.run()) : call.run());
  }

  private static PreparedStatement asking(PreparedStatement real) {
    return hooked(
        PreparedStatement.class,
        real,
        (name, args, call) -> {
          Object answer = call.run();
          if (name.equals("executeQuery")) {
            asked.run();
          }
          return answer;
        });
  }

  private static Statement committing(Statement real) {
    return hooked(
        Statement.class,
        real,
        (name, args, call) -> {
          boolean begins = name.equals("execute") && ("" + args[0]).startsWith("BEGIN");
          if (!begins && !(name.equals("execute") && args[0].equals("COMMIT"))) {
            return call.run();
          }
          (begins ? begin : commit)
              .instead(
                  () -> {
                    call.run();
                    return 0;
                  });
          return false;
        });
  }

  private interface Call {
    Object run() throws SQLException;
  }

  private interface Around {
    Object call(String name, Object[] args, Call call) throws SQLException;
  }

  private static <T> T hooked(Class<T> type, T real, Around around) {
    return type.cast(
        Proxy.newProxyInstance(
            type.getClassLoader(),
            new Class<?>[] {type},
            (proxy, method, args) ->
                around.call(
                    method.getName(),
                    args,
                    () -> {
                      try {
                        return method.invoke(real, args);
                      } catch (InvocationTargetException e) {
                        throw (SQLException) e.getCause();
                      } catch (IllegalAccessException e) {
                        throw new IllegalStateException(e);
                      }
                    })));
  }

  @Override
  public boolean acceptsURL(String url) {
    return url.startsWith(PREFIX);
  }

  @Override
  public DriverPropertyInfo[] getPropertyInfo(String url, Properties info) {
    return new DriverPropertyInfo[0];
  }

  @Override
  public int getMajorVersion() {
    return 1;
  }

  @Override
  public int getMinorVersion() {
    return 0;
  }

  @Override
  public boolean jdbcCompliant() {
    return false;
  }

  @Override
  public Logger getParentLogger() {
    return Logger.getGlobal();
  }
}
