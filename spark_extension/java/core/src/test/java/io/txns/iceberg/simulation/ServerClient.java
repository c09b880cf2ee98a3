package io.txns.iceberg.simulation;

import java.net.URI;
import java.util.Map;
import java.util.function.Consumer;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.catalog.SessionCatalog;
import org.apache.iceberg.exceptions.RESTException;
import org.apache.iceberg.rest.BaseHTTPClient;
import org.apache.iceberg.rest.HTTPRequest;
import org.apache.iceberg.rest.ParserContext;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.rest.RESTClient;
import org.apache.iceberg.rest.RESTResponse;
import org.apache.iceberg.rest.auth.AuthSession;
import org.apache.iceberg.rest.responses.ErrorResponse;

/**
 * What Iceberg's REST catalog sends its requests with: {@link ServerRequests} answers them, and
 * what that fails with is an error of HTTP.
 */
final class ServerClient extends BaseHTTPClient {
  private record Request(
      HTTPRequest.HTTPMethod method,
      String path,
      Map<String, String> queryParameters,
      Map<String, String> headersByName,
      Object body)
      implements HTTPRequest {
    @Override
    public URI baseUri() {
      return URI.create("http://simulated");
    }
  }

  /** Iceberg's own catalog of a REST server, which the simulation is. */
  static RESTCatalog catalog(String name) {
    RESTCatalog catalog =
        new RESTCatalog(SessionCatalog.SessionContext.createEmpty(), options -> new ServerClient());
    catalog.initialize(
        name,
        Map.of(
            CatalogProperties.URI,
            "http://simulated",
            CatalogProperties.FILE_IO_IMPL,
            SimulatedFileIO.class.getName(),
            "rest-metrics-reporting-enabled",
            "false"));
    return catalog;
  }

  @Override
  public RESTClient withAuthSession(AuthSession session) {
    return this;
  }

  @Override
  protected HTTPRequest buildRequest(
      HTTPRequest.HTTPMethod method,
      String path,
      Map<String, String> queryParameters,
      Map<String, String> headers,
      Object body) {
    return new Request(method, path, queryParameters, headers, body);
  }

  @Override
  protected <T extends RESTResponse> T execute(
      HTTPRequest request,
      Class<T> type,
      Consumer<ErrorResponse> errors,
      Consumer<Map<String, String>> headers) {
    RESTResponse response;
    try {
      response = ServerRequests.answer(request);
    } catch (StepFailed e) {
      ErrorResponse error =
          ErrorResponse.builder()
              .responseCode(code(e))
              .withType(e.type() + "Exception")
              .withMessage(e.getMessage())
              .build();
      errors.accept(error);
      throw new RESTException("Unhandled error: %s", error);
    }
    return type == null ? null : type.cast(response);
  }

  @Override
  protected <T extends RESTResponse> T execute(
      HTTPRequest request,
      Class<T> type,
      Consumer<ErrorResponse> errors,
      Consumer<Map<String, String>> headers,
      ParserContext context) {
    return execute(request, type, errors, headers);
  }

  private static int code(StepFailed e) {
    return switch (e.type()) {
      case "BadRequest" -> 400;
      case "Unauthorized" -> 401;
      case "Forbidden" -> 403;
      case "TooManyRequests" -> 429;
      case "NoSuchTable", "NoSuchNamespace", "FileNotFound" -> 404;
      case "CommitFailed", "AlreadyExists" -> 409;
      case "Lost" -> 504;
      default -> 503;
    };
  }

  @Override
  public void close() {}
}
