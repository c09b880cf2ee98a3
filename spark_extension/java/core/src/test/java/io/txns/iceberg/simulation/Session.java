package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.JsonNode;
import io.txns.iceberg.TxnConfig;
import io.txns.iceberg.TxnHandle;
import io.txns.iceberg.catalog.Transaction;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileScanTask;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;

/** What one simulated process has: a handle, and by numbers the transactions and tables of it. */
final class Session {
  /** One call of the protocol. */
  interface Call {
    JsonNode with(JsonNode args);
  }

  /** A table that was loaded, and the files that were last scanned of it, by path. */
  record LoadedTable(Table table, Map<String, FileScanTask> scanned) {
    DataFile file(String path) {
      return scanned.get(path).file();
    }
  }

  private final SimulatedProcess process;
  private final Map<String, Call> calls = new LinkedHashMap<>();
  private final List<Transaction> transactions = new ArrayList<>();
  private final List<LoadedTable> tables = new ArrayList<>();
  private Catalog plain;
  private TxnHandle handle;

  Session(SimulatedProcess process) {
    this.process = process;
    calls.put("connect", this::connect);
    calls.put("open", this::open);
    new TransactionCalls(this).into(calls);
    new TableCalls(this).into(calls);
    new CatalogCalls(this).into(calls);
    new UpkeepCalls(this).into(calls);
  }

  JsonNode call(String name, JsonNode args) {
    Call call = calls.get(name);
    if (call == null) {
      throw new UnsupportedOperationException("no such call: " + name);
    }
    return call.with(args);
  }

  private JsonNode connect(JsonNode args) {
    plain =
        args.path("server").asBoolean() ? ServerClient.catalog("lake") : new SwapCatalog("lake");
    return Json.none();
  }

  private JsonNode open(JsonNode args) {
    process.putPayloadsInFiles(args.path("payloads_in_files").asBoolean());
    TxnConfig config = TxnConfig.from(Json.map(args.path("options")));
    if (plain instanceof SwapCatalog swapped) {
      swapped.queues(args.path("queues").asBoolean());
    }
    // Handles made in this way commit for nobody else, as those of other processes do not.
    handle = TxnHandle.open("lake", plain, config, new SimulatedClock());
    createNamespace((SupportsNamespaces) plain, config.commitTable().namespace());
    return Json.none();
  }

  private static void createNamespace(SupportsNamespaces catalog, Namespace namespace) {
    if (catalog.namespaceExists(namespace)) {
      return;
    }
    try {
      catalog.createNamespace(namespace);
    } catch (RuntimeException e) {
      if (!catalog.namespaceExists(namespace)) {
        throw e;
      }
    }
  }

  TxnHandle handle() {
    if (handle == null) {
      throw new IllegalStateException("the process has opened nothing yet");
    }
    return handle;
  }

  // ------------------------------------------------------------ by numbers

  int number(Transaction transaction) {
    transactions.add(transaction);
    return transactions.size();
  }

  Transaction transaction(JsonNode args) {
    return transactions.get(args.get("txn").asInt() - 1);
  }

  /** The try before, after which one begins. */
  Transaction lost(JsonNode args) {
    return transactions.get(args.get("after").asInt() - 1);
  }

  int number(Table table) {
    tables.add(new LoadedTable(table, new LinkedHashMap<>()));
    return tables.size();
  }

  LoadedTable table(JsonNode args) {
    return tables.get(args.get("table").asInt() - 1);
  }

  /** The tables as a transaction sees them, by its number, as single statements do, or plain. */
  Catalog catalog(JsonNode args) {
    JsonNode named = args.get("catalog");
    if (!named.isInt()) {
      return named.asText().equals("plain") ? plain : handle().catalog(() -> null);
    }
    Transaction transaction = transactions.get(named.asInt() - 1);
    return handle().catalog(() -> transaction);
  }
}
