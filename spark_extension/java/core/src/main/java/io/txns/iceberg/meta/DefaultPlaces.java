package io.txns.iceberg.meta;

import java.util.Set;
import org.apache.iceberg.BaseTransaction;
import org.apache.iceberg.Schema;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.exceptions.BadRequestException;
import org.apache.iceberg.exceptions.ForbiddenException;
import org.apache.iceberg.exceptions.NoSuchNamespaceException;
import org.apache.iceberg.types.Types;

/** The folders in which a catalog puts new tables of a namespace. */
public final class DefaultPlaces {
  /** What makes a name of a namespace that nobody has: a catalog plans none of a name it has. */
  private static final String UNUSED = "_26b9e2e3d4c05f7e9d5b0a4f1c3d2e10";

  private static final String LOCATION = "location";
  private static final Schema ANY =
      new Schema(Types.NestedField.optional(1, "id", Types.LongType.get()));

  private DefaultPlaces() {}

  /** The folders in which libraries put a new table of a namespace, by its own location. */
  public static Set<String> ofNamespace(Catalog catalog, Namespace namespace) {
    if (!(catalog instanceof SupportsNamespaces namespaces)) {
      return Set.of();
    }
    try {
      String location = namespaces.loadNamespaceMetadata(namespace).get(LOCATION);
      return location == null ? Set.of() : Places.spellings(location, namespace.levels());
    } catch (UnsupportedOperationException
        | NoSuchNamespaceException
        | BadRequestException
        | ForbiddenException e) {
      return Set.of(); // it has none, or none that we may see
    }
  }

  /** Whether a catalog says that it has no such namespace, which one that fails does not say. */
  public static boolean lacksNamespace(Catalog catalog, Namespace namespace) {
    if (!(catalog instanceof SupportsNamespaces namespaces)) {
      return false;
    }
    try {
      namespaces.loadNamespaceMetadata(namespace);
      return false;
    } catch (NoSuchNamespaceException e) {
      return true;
    } catch (UnsupportedOperationException | BadRequestException | ForbiddenException e) {
      return false;
    }
  }

  /**
   * The folders in which the catalog itself puts a table: its rules are its own. It is asked to
   * plan one of a name that nobody has, which tells the folder as well.
   */
  public static Set<String> planned(Catalog catalog, TableIdentifier table) {
    TableIdentifier unused = TableIdentifier.of(table.namespace(), table.name() + UNUSED);
    BaseTransaction creation =
        (BaseTransaction) catalog.buildTable(unused, ANY).createTransaction();
    return Places.ownFolders(creation.currentMetadata().location(), table.namespace().levels());
  }
}
