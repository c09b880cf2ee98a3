package io.txns.iceberg;

import static org.apache.iceberg.types.Types.NestedField.optional;
import static org.apache.iceberg.types.Types.NestedField.required;

import io.txns.iceberg.catalog.Transaction;
import io.txns.iceberg.log.Entry;
import io.txns.iceberg.log.EntryKind;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.FileVisitResult;
import java.nio.file.FileVisitor;
import java.nio.file.Files;
import java.nio.file.NoSuchFileException;
import java.nio.file.Path;
import java.nio.file.SimpleFileVisitor;
import java.nio.file.attribute.BasicFileAttributes;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import org.apache.iceberg.CatalogProperties;
import org.apache.iceberg.DataFile;
import org.apache.iceberg.FileFormat;
import org.apache.iceberg.PartitionSpec;
import org.apache.iceberg.Schema;
import org.apache.iceberg.Table;
import org.apache.iceberg.catalog.Catalog;
import org.apache.iceberg.catalog.Namespace;
import org.apache.iceberg.catalog.SupportsNamespaces;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.data.GenericRecord;
import org.apache.iceberg.data.IcebergGenerics;
import org.apache.iceberg.data.Record;
import org.apache.iceberg.encryption.EncryptedFiles;
import org.apache.iceberg.encryption.EncryptionKeyMetadata;
import org.apache.iceberg.formats.FormatModelRegistry;
import org.apache.iceberg.io.CloseableIterable;
import org.apache.iceberg.io.DataWriter;
import org.apache.iceberg.jdbc.JdbcCatalog;
import org.apache.iceberg.rest.RESTCatalog;
import org.apache.iceberg.types.Types;

/** A catalog in a folder, as users of the embedded default have it, and rows to put into it. */
public final class Lake {
  public static final Schema SCHEMA =
      new Schema(
          required(1, "id", Types.LongType.get()), optional(2, "name", Types.StringType.get()));

  /** The system's clock; nothing here lags, so waiting for a replica is no more than a breath. */
  public static final TxnClock CLOCK =
      new TxnClock() {
        private static final long WAIT_MS_MAX = 5;

        @Override
        public long nowMs() {
          return TxnClock.system().nowMs();
        }

        @Override
        public String newTxnId() {
          return TxnClock.system().newTxnId();
        }

        @Override
        public void backOff(long maxMs) {
          TxnClock.system().backOff(Math.min(maxMs, WAIT_MS_MAX));
        }
      };

  /** Options of who applies what he commits, whatever the log is set to. */
  public static final TxnConfig INLINE = TxnConfig.from(Map.of("txns.apply", "inline"));

  private static final String REST_URI = System.getProperty("txns.test.rest.uri");
  private static final String JDBC_URI = System.getProperty("txns.test.jdbc.uri");
  private static final Set<Path> CLEARED = ConcurrentHashMap.newKeySet();

  private final Path folder;

  public Lake(Path folder) {
    this.folder = folder;
  }

  /**
   * A new client of the catalog, as another process would open it: SQLite and a folder, or the
   * Iceberg REST server at {@code -Dtxns.test.rest.uri}, whose warehouse is the folder {@code
   * -Dtxns.test.rest.warehouse}; or the database at {@code -Dtxns.test.jdbc.uri} and a folder.
   */
  public <T extends Catalog & SupportsNamespaces> T catalog() {
    @SuppressWarnings("unchecked")
    T catalog = (T) (REST_URI == null ? jdbcCatalog() : restCatalog());
    return catalog;
  }

  private JdbcCatalog jdbcCatalog() {
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options());
    if (JDBC_URI != null && CLEARED.add(folder)) {
      for (Namespace namespace : catalog.listNamespaces()) {
        catalog.listTables(namespace).forEach(table -> catalog.dropTable(table, false));
      }
    }
    return catalog;
  }

  private RESTCatalog restCatalog() {
    RESTCatalog catalog = new RESTCatalog();
    catalog.initialize("lake", Map.of(CatalogProperties.URI, REST_URI));
    if (CLEARED.add(folder)) {
      for (Namespace namespace : catalog.listNamespaces()) {
        catalog.listTables(namespace).forEach(table -> catalog.dropTable(table, false));
      }
    }
    return catalog;
  }

  /** Whether the catalog's database is none of its own, and can lock one row. */
  public static boolean isOnServer() {
    return JDBC_URI != null;
  }

  public static boolean isRest() {
    return REST_URI != null;
  }

  /** Where the files of the tables are. */
  public Path files() {
    return REST_URI == null
        ? folder.resolve("files")
        : Path.of(System.getProperty("txns.test.rest.warehouse"));
  }

  /**
   * The files at this path of {@link #files()} and below it. Threads delete what is superseded
   * meanwhile: what is gone before it was looked at is not among them.
   */
  public List<Path> filesBelow(String path) {
    List<Path> found = new ArrayList<>();
    FileVisitor<Path> visitor =
        new SimpleFileVisitor<>() {
          @Override
          public FileVisitResult visitFile(Path file, BasicFileAttributes attributes) {
            found.add(file);
            return FileVisitResult.CONTINUE;
          }

          @Override
          public FileVisitResult visitFileFailed(Path file, IOException e) throws IOException {
            if (e instanceof NoSuchFileException && !file.equals(files().resolve(path))) {
              return FileVisitResult.CONTINUE;
            }
            throw e;
          }
        };
    try {
      Files.walkFileTree(files().resolve(path), visitor);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    return found;
  }

  public Map<String, String> options() {
    Map<String, String> options = new TreeMap<>();
    options.put(
        CatalogProperties.URI,
        JDBC_URI != null
            ? JDBC_URI
            : "jdbc:sqlite:file:"
                + folder.resolve("catalog.db")
                + "?journal_mode=WAL&busy_timeout=30000");
    options.put(CatalogProperties.WAREHOUSE_LOCATION, files().toString());
    options.put("jdbc.schema-version", "V1");
    options.put(CatalogProperties.FILE_IO_IMPL, MovedFiles.class.getName());
    return options;
  }

  /** The protocol, which applies what it commits, or leaves that to others: so is the log set. */
  public TxnHandle open(Map<String, String> txnOptions) {
    if ("next".equals(txnOptions.get("txns.apply"))) {
      Map<String, String> others = new TreeMap<>(txnOptions);
      others.remove("txns.apply");
      leaveApplies(TxnHandle.open("lake", catalog(), TxnConfig.from(others), CLOCK));
    }
    Map<String, String> options = new TreeMap<>(Map.of("txns.apply", "inline"));
    options.putAll(txnOptions);
    return TxnHandle.open("lake", catalog(), TxnConfig.from(options), CLOCK);
  }

  /** Set a log so that processes may leave the apply to the next writer. */
  public static void leaveApplies(TxnHandle handle) {
    if (handle.settings().apply() != TxnConfig.Apply.NEXT) {
      handle.changeSettings(null, null, TxnConfig.Apply.NEXT);
    }
  }

  /** The entries that stand in the head, but for those that stay for good. */
  public static List<Entry> standing(TxnHandle handle) {
    return handle.services().log().load().state().entries().stream()
        .filter(entry -> entry.kind() != EntryKind.SETTINGS)
        .toList();
  }

  public TxnHandle open() {
    return open(Map.of());
  }

  /** The protocol, whose swaps move the log and its tables together. */
  public TxnHandle atomic() {
    return atomic(Map.of());
  }

  /** The same over a catalog with further options. */
  public TxnHandle atomic(Map<String, String> more) {
    Map<String, String> options = options();
    options.putAll(more);
    JdbcCatalog catalog = new JdbcCatalog();
    catalog.initialize("lake", options);
    TxnConfig config = TxnConfig.from(Map.of("txns.apply", "atomic"));
    return TxnHandle.openAlone("lake", options, catalog, config, CLOCK, TxnMetrics.NONE);
  }

  public static TableIdentifier id(String name) {
    return TableIdentifier.parse(name);
  }

  /** Create plain tables of format version 2 and register them. */
  public void create(TxnHandle handle, String... names) {
    Catalog plain = catalog();
    for (String name : names) {
      TableIdentifier table = id(name);
      createNamespace(plain, table.namespace());
      plain.buildTable(table, SCHEMA).withProperty("format-version", "2").create();
      handle.register(table);
    }
  }

  public static void createNamespace(Catalog catalog, Namespace namespace) {
    SupportsNamespaces namespaces = (SupportsNamespaces) catalog;
    if (!namespaces.namespaceExists(namespace)) {
      namespaces.createNamespace(namespace);
    }
  }

  /** Write a data file of rows {@code (id, "n" + id)}; nothing points to it yet. */
  public static DataFile file(Table table, long... ids) {
    String name = UUID.randomUUID() + ".parquet";
    var file =
        EncryptedFiles.encryptedOutput(
            table.io().newOutputFile(table.locationProvider().newDataLocation(name)),
            EncryptionKeyMetadata.EMPTY);
    try (DataWriter<Record> writer =
        FormatModelRegistry.<Record, Schema>dataWriteBuilder(FileFormat.PARQUET, Record.class, file)
            .schema(table.schema())
            .spec(PartitionSpec.unpartitioned())
            .build()) {
      for (long id : ids) {
        Record record = GenericRecord.create(table.schema());
        record.setField("id", id);
        record.setField("name", "n" + id);
        writer.write(record);
      }
      writer.close();
      return writer.toDataFile();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  public static void append(Table table, long... ids) {
    table.newAppend().appendFile(file(table, ids)).commit();
  }

  /** A write in a transaction whose data files are its own, as those of an engine's tasks are. */
  public static void written(Transaction txn, Runnable write) throws Exception {
    txn.writes().ofTasks(Executors.callable(write));
  }

  /** Replace all rows by others, in one operation that read the whole table. */
  public static void overwrite(Table table, long... ids) {
    var overwrite = table.newOverwrite();
    try (CloseableIterable<org.apache.iceberg.FileScanTask> tasks = table.newScan().planFiles()) {
      tasks.forEach(task -> overwrite.deleteFile(task.file()));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    overwrite.addFile(file(table, ids)).commit();
  }

  /** The ids in a table, ascending. */
  public static List<Long> ids(Table table) {
    List<Long> ids = new ArrayList<>();
    try (CloseableIterable<Record> records = IcebergGenerics.read(table).build()) {
      records.forEach(record -> ids.add((Long) record.getField("id")));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    ids.sort(Long::compare);
    return ids;
  }

  /** The ids in a table as a reader outside the protocol sees it. */
  public List<Long> plainIds(String name) {
    return ids(catalog().loadTable(id(name)));
  }

  /** The ids in a table as a new reader of the protocol sees it. */
  public List<Long> txnIds(String name) {
    return ids(open().catalog(() -> null).loadTable(id(name)));
  }
}
