package io.txns.iceberg.simulation;

import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.MetadataUpdate;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.SortOrder;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.TableMetadataParser;
import org.apache.iceberg.UpdateRequirement;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.HTTPRequest.HTTPMethod;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.RESTUtil;
import org.apache.iceberg.rest.requests.CreateNamespaceRequest;
import org.apache.iceberg.rest.requests.CreateTableRequest;
import org.apache.iceberg.rest.requests.RenameTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequest;
import org.apache.iceberg.rest.requests.UpdateTableRequestParser;
import org.apache.iceberg.rest.responses.ConfigResponse;
import org.apache.iceberg.rest.responses.CreateNamespaceResponse;
import org.apache.iceberg.rest.responses.GetNamespaceResponse;
import org.apache.iceberg.rest.responses.ListNamespacesResponse;
import org.apache.iceberg.rest.responses.ListTablesResponse;
import org.apache.iceberg.rest.responses.LoadTableResponse;

/** Requests to a REST server as steps; what a step cannot say is what no server is asked here. */
final class ServerRequests {
  /** Between the levels of a namespace. */
  private static final String SEPARATOR = "\u001f";

  private ServerRequests() {}

  /** Answer a request; null where the answer has no body. */
  static RESTResponse answer(HTTPRequest request) {
    List<String> path = List.of(request.path().split("/"));
    if (path.equals(List.of("v1", "config"))) {
      return ConfigResponse.builder().build();
    }
    if (path.equals(List.of("v1", "tables", "rename"))) {
      RenameTableRequest rename = (RenameTableRequest) request.body();
      CatalogSteps.rename(rename.source(), rename.destination());
      return null;
    }
    if (!path.get(1).equals("namespaces") || (path.size() > 3 && !path.get(3).equals("tables"))) {
      throw new UnsupportedOperationException(request.method() + " " + request.path());
    }
    if (path.size() == 2) {
      return request.method() == HTTPMethod.GET
          ? namespaces(request.queryParameters().get("parent"))
          : createNamespace((CreateNamespaceRequest) request.body());
    }
    Namespace namespace = Namespace.of(decoded(path.get(2)).split(SEPARATOR));
    return switch (path.size()) {
      case 3 -> namespace(namespace);
      case 4 -> tables(request, namespace);
      default -> table(request, TableIdentifier.of(namespace, decoded(path.get(4))));
    };
  }

  private static String decoded(String segment) {
    return URLDecoder.decode(segment, StandardCharsets.UTF_8);
  }

  // ------------------------------------------------------------ namespaces

  /**
   * @param parent as a client spells it; null for the top
   */
  private static RESTResponse namespaces(String parent) {
    Namespace above = parent == null ? Namespace.empty() : RESTUtil.namespaceFromQueryParam(parent);
    return ListNamespacesResponse.builder().addAll(CatalogSteps.namespaces(above)).build();
  }

  private static RESTResponse createNamespace(CreateNamespaceRequest request) {
    CatalogSteps.createNamespace(request.namespace());
    return CreateNamespaceResponse.builder().withNamespace(request.namespace()).build();
  }

  private static RESTResponse namespace(Namespace namespace) {
    Map<String, String> properties = CatalogSteps.namespace(namespace);
    if (properties == null) {
      throw new StepFailed("NoSuchNamespace", "Namespace does not exist: " + namespace);
    }
    return GetNamespaceResponse.builder()
        .withNamespace(namespace)
        .setProperties(properties)
        .build();
  }

  // ------------------------------------------------------------ tables

  private static RESTResponse tables(HTTPRequest request, Namespace namespace) {
    if (request.method() == HTTPMethod.POST) {
      return create(namespace, (CreateTableRequest) request.body());
    }
    return ListTablesResponse.builder().addAll(CatalogSteps.list(namespace)).build();
  }

  private static RESTResponse table(HTTPRequest request, TableIdentifier table) {
    return switch (request.method()) {
      case GET -> response(CatalogSteps.load(table));
      case HEAD -> {
        CatalogSteps.load(table);
        yield null;
      }
      case DELETE -> {
        CatalogSteps.drop(table);
        yield null;
      }
      default -> commit(table, (UpdateTableRequest) request.body());
    };
  }

  private static RESTResponse commit(TableIdentifier table, UpdateTableRequest request) {
    return response(
        CatalogSteps.commit(table, Json.parse(UpdateTableRequestParser.toJson(request))));
  }

  private static RESTResponse response(CatalogSteps.Stored stored) {
    return response(stored.parsed());
  }

  private static RESTResponse response(TableMetadata metadata) {
    return LoadTableResponse.builder().withTableMetadata(metadata).build();
  }

  /** Make a table, or only its metadata where the client is to commit it itself. */
  private static RESTResponse create(Namespace namespace, CreateTableRequest request) {
    TableIdentifier table = TableIdentifier.of(namespace, request.name());
    PartitionSpec spec = request.spec();
    SortOrder order = request.writeOrder();
    String location = request.location();
    TableMetadata metadata =
        TableMetadata.newTableMetadata(
            request.schema(),
            spec == null ? PartitionSpec.unpartitioned() : spec,
            order == null ? SortOrder.unsorted() : order,
            location == null ? SwapCatalog.defaultLocation(table) : location,
            request.properties());
    if (!request.stageCreate()) {
      List<UpdateRequirement> absent = List.of(new UpdateRequirement.AssertTableDoesNotExist());
      return commit(table, new UpdateTableRequest(absent, creation(metadata)));
    }
    refuseExisting(table);
    // As it comes over a network: without the changes that made it, which the client lists itself.
    return response(TableMetadataParser.fromJson(TableMetadataParser.toJson(metadata)));
  }

  private static void refuseExisting(TableIdentifier table) {
    try {
      CatalogSteps.load(table);
    } catch (StepFailed e) {
      if (e.is("NoSuchTable")) {
        return;
      }
      throw e;
    }
    throw new StepFailed("AlreadyExists", "Table already exists: " + table);
  }

  /** The changes that make a table out of nothing, as REST clients list them. */
  private static List<MetadataUpdate> creation(TableMetadata metadata) {
    List<MetadataUpdate> changes = new ArrayList<>();
    changes.add(new MetadataUpdate.AssignUUID(metadata.uuid()));
    changes.add(new MetadataUpdate.UpgradeFormatVersion(metadata.formatVersion()));
    changes.add(new MetadataUpdate.AddSchema(metadata.schema()));
    changes.add(new MetadataUpdate.SetCurrentSchema(-1));
    changes.add(new MetadataUpdate.AddPartitionSpec(metadata.spec()));
    changes.add(new MetadataUpdate.SetDefaultPartitionSpec(-1));
    changes.add(new MetadataUpdate.AddSortOrder(metadata.sortOrder()));
    changes.add(new MetadataUpdate.SetDefaultSortOrder(-1));
    changes.add(new MetadataUpdate.SetLocation(metadata.location()));
    changes.add(new MetadataUpdate.SetProperties(metadata.properties()));
    return changes;
  }
}
