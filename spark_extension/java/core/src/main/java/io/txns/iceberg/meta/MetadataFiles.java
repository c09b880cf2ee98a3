package io.txns.iceberg.meta;

import java.nio.file.AccessDeniedException;
import java.util.Arrays;
import java.util.regex.Pattern;
import org.apache.iceberg.BaseMetastoreTableOperations;
import org.apache.iceberg.TableMetadataParser;

/** What table operations do not tell of a commit: whether they came as far as asking for it. */
public final class MetadataFiles {
  /** HDFS's, by its name: some engines run without Hadoop. */
  private static final String HDFS_DENIES = "org.apache.hadoop.security.AccessControlException";

  /** What clients of object stores say of an answer, in errors of their own. */
  private static final Pattern FORBIDDEN =
      Pattern.compile("\\bstatus code:? 403\\b|^403 Forbidden\\b", Pattern.CASE_INSENSITIVE);

  private MetadataFiles() {}

  /**
   * Whether an error of a commit came out of writing the new metadata file.
   *
   * <p>Operations that write it themselves do so before they move the pointer, so nothing has been
   * asked for. Where the error was made tells: it has the same type as any other one. Of a server,
   * which writes it, and where another error was made of it, nothing is known.
   */
  public static boolean isUnwritten(Throwable e) {
    return Arrays.stream(e.getStackTrace()).anyMatch(MetadataFiles::isWriting);
  }

  private static boolean isWriting(StackTraceElement frame) {
    return frame.getClassName().equals(TableMetadataParser.class.getName())
            && frame.getMethodName().equals("internalWrite")
        || frame.getClassName().equals(BaseMetastoreTableOperations.class.getName())
            && frame.getMethodName().equals("writeNewMetadata");
  }

  /** Whether a storage says of what could not be written that one may not write there. */
  public static boolean isDenied(Throwable e) {
    for (Throwable told = e; told != null; told = told.getCause()) {
      if (told instanceof AccessDeniedException
          || isNamed(told.getClass(), HDFS_DENIES)
          || FORBIDDEN.matcher(String.valueOf(told.getMessage())).find()) {
        return true;
      }
    }
    return LocalPermissions.mayNotWrite(e);
  }

  private static boolean isNamed(Class<?> type, String name) {
    return type != null && (type.getName().equals(name) || isNamed(type.getSuperclass(), name));
  }
}
