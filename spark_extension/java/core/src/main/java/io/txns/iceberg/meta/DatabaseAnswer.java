package io.txns.iceberg.meta;

import java.sql.SQLException;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import org.apache.iceberg.exceptions.ForbiddenException;

/**
 * What a catalog's database has answered to an update that it has not done.
 *
 * <p>Iceberg's client repeats what broke off, and where that fails, too, tells the first error: so
 * an answer is one to the first request, and none has landed before it.
 */
public final class DatabaseAnswer {
  /** SQLSTATEs of a database that does not let somebody write: login, read-only, privilege. */
  private static final Set<String> REFUSING = Set.of("28000", "28P01", "25006", "42501");

  /** What one says to who has not the right to do something. */
  private static final String DENIED = "42501";

  /** What a database says that has no room on its disk, and has undone what it was asked for. */
  private static final String DISK_FULL = "53100";

  private static final String SQLITE_FULL = "[SQLITE_FULL]";

  /** What one says of a lock that is not to be had; it has undone what it was asked for. */
  private static final Set<String> BUSY = Set.of("55P03", "40P01");

  /** What one says of what its time-out of statements, or somebody, has cancelled. */
  private static final String CANCELLED = "57014";

  /** How SQLSTATEs begin of connections that fail, or that somebody has ended. */
  private static final List<String> CUT_OFF = List.of("08", "57P");

  private static final String SQLITE_READ_ONLY = "[SQLITE_READONLY";
  private static final String SQLITE_BUSY = "[SQLITE_BUSY";

  private DatabaseAnswer() {}

  /**
   * Refuse what a database refuses.
   *
   * @throws ForbiddenException it lets nobody write
   */
  public static void refuseDenied(RuntimeException e) {
    for (SQLException told : told(e)) {
      boolean isReadOnly = ("" + told.getMessage()).startsWith(SQLITE_READ_ONLY);
      if (isReadOnly || REFUSING.contains("" + told.getSQLState())) {
        throw new ForbiddenException(e, "%s", told.getMessage());
      }
    }
  }

  /** Whether it has no room. */
  public static boolean isFull(RuntimeException e) {
    return told(e).stream()
        .anyMatch(
            told ->
                DISK_FULL.equals(told.getSQLState())
                    || ("" + told.getMessage()).contains(SQLITE_FULL));
  }

  /** Whether it has refused somebody for want of a right. */
  static boolean isDenied(SQLException told) {
    return DENIED.equals(told.getSQLState());
  }

  /** Whether others held a lock for too long. */
  static boolean isBusy(SQLException told) {
    return BUSY.contains("" + told.getSQLState())
        || ("" + told.getMessage()).startsWith(SQLITE_BUSY);
  }

  /** Whether a wait for a lock has ended without it, by whose time-out ever. */
  static boolean isNotHad(SQLException told) {
    return isBusy(told) || CANCELLED.equals(told.getSQLState());
  }

  /** Whether the connection is no more, on which something was asked. */
  static boolean isCutOff(SQLException told) {
    return CUT_OFF.stream().anyMatch(("" + told.getSQLState())::startsWith);
  }

  private static List<SQLException> told(RuntimeException e) {
    List<SQLException> all = new ArrayList<>();
    for (Throwable cause = e; cause != null; cause = cause.getCause()) {
      if (cause instanceof SQLException told) {
        all.add(told);
      }
    }
    return all;
  }
}
