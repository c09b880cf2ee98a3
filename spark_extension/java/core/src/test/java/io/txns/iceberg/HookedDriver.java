package io.txns.iceberg;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.sql.Connection;
import java.sql.Driver;
import java.sql.DriverManager;
import java.sql.DriverPropertyInfo;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Map;
import java.util.Properties;
import java.util.TreeMap;
import java.util.logging.Logger;
import org.apache.iceberg.jdbc.JdbcCatalog;

/** SQLite's driver, with a test's own code in place of an update: its client is Iceberg's own. */
public final class HookedDriver implements Driver {
  private static final String PREFIX = "jdbc:hooked:";
  private static Hook hook = Update::run;

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
    hook = Update::run;
    Map<String, String> options = new TreeMap<>(lake.options());
    options.compute("uri", (key, uri) -> PREFIX + uri.substring("jdbc:".length()));
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    return catalog;
  }

  /** What is done in place of each update from now on. */
  public static void hook(Hook instead) {
    hook = instead;
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
          boolean updates = name.equals("prepareStatement") && ("" + args[0]).startsWith("UPDATE");
          return updates ? updating((PreparedStatement) made) : made;
        });
  }

  private static PreparedStatement updating(PreparedStatement real) {
    return hooked(
        PreparedStatement.class,
        real,
        (name, args, call) ->
            name.equals("executeUpdate") ? hook.instead(() -> (int) call.run()) : call.run());
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
