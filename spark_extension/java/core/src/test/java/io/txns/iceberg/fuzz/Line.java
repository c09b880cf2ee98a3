package io.txns.iceberg.fuzz;

import io.txns.iceberg.ErrorKind;
import io.txns.iceberg.TxnException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Comparator;
import java.util.List;
import java.util.function.Supplier;
import java.util.stream.Collectors;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.MetadataUpdateParser;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.UpdateRequirementParser;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** What is made of an input, as one text; Python writes the same of the same. */
public final class Line {
  /** How Python orders texts; Java goes by halves of pairs. */
  public static final Comparator<String> BY_CODE_POINT =
      (one, other) -> Arrays.compare(one.codePoints().toArray(), other.codePoints().toArray());

  private Line() {}

  public static String of(Object... parts) {
    return Arrays.stream(parts).map(String::valueOf).collect(Collectors.joining("|"));
  }

  public static String list(Collection<?> parts) {
    return parts.stream().map(String::valueOf).collect(Collectors.joining(",", "[", "]"));
  }

  /** A value, or the error in its place, where several functions see one input. */
  public static String orError(Supplier<String> value) {
    try {
      return value.get();
    } catch (TxnException e) {
      return kind(e);
    }
  }

  public static boolean holds(Runnable check) {
    try {
      check.run();
      return true;
    } catch (TxnException e) {
      kind(e);
      return false;
    }
  }

  /** The answers that a reader, an applier or a tidier may give. */
  static String kind(TxnException e) {
    return switch (e.kind()) {
      case FOREIGN_WRITE -> ErrorKind.QUARANTINED.name();
      case CORRUPT_LOG, UNSUPPORTED, QUARANTINED, CONFLICT -> e.kind().name();
      default -> throw e;
    };
  }

  public static String request(UpdateTableRequest request) {
    TableIdentifier table = request.identifier();
    List<String> name = new ArrayList<>(List.of(table.namespace().levels()));
    name.add(table.name());
    return of(
        list(name),
        list(request.requirements().stream().map(Line::type).toList()),
        list(request.updates().stream().map(Line::action).toList()));
  }

  private static String type(UpdateRequirement requirement) {
    String json = UpdateRequirementParser.toJson(requirement);
    return json.replaceFirst("(?s).*?\"type\":\"([a-z-]+)\".*", "$1");
  }

  private static String action(MetadataUpdate update) {
    String json = MetadataUpdateParser.toJson(update);
    return json.replaceFirst("(?s).*?\"action\":\"([a-z-]+)\".*", "$1");
  }
}
