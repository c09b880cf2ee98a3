package io.txns.iceberg.log;

import io.txns.iceberg.TxnException;
import io.txns.iceberg.meta.LocalWrites;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.charset.CharacterCodingException;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.security.NoSuchAlgorithmException;
import java.util.HexFormat;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Supplier;
import java.util.regex.Pattern;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.rest.requests.CommitTransactionRequest;
import org.apache.iceberg.rest.requests.CommitTransactionRequestParser;
import org.apache.iceberg.rest.requests.UpdateTableRequest;

/** The bytes that entries carry for their tables: inline, or in a file of their own. */
public final class Payloads {
  /** Payloads above this size have a file of their own. */
  static final int INLINE_MAX_BYTES = 64 * 1024;

  private static final int PIECE_BYTES = 4 * 1024 * 1024;

  private static final int CACHED_ENTRIES = 128;

  /**
   * How much JSON is kept parsed, which takes many times as much; the newest payload is kept
   * whatever it has. Whoever may write the log alone would fill everybody's memory.
   */
  private static final long CACHED_CHARACTERS = 16 * 1024 * 1024;

  private static final Pattern NAME =
      Pattern.compile("txns-payload-[0-9a-f]+-[0-9a-f]+(-[0-9]+)?\\.json");

  /** By when it was asked for last. */
  private final Map<Entry.Payload, Known> cache = new LinkedHashMap<>(16, 0.75f, true);

  private long cachedCharacters;

  private record Known(List<UpdateTableRequest> requests, int characters) {}

  /**
   * The requests of an entry, one per change that it carries, in their order.
   *
   * @param io the commit table's files
   * @param location the commit table's
   * @throws TxnException CorruptLog when the payload is not what the entry says, or lies elsewhere
   */
  List<UpdateTableRequest> read(Entry entry, Supplier<FileIO> io, Supplier<String> location) {
    Known known = known(entry.payload());
    if (known == null) {
      if (entry.payload().location() != null) {
        checkPlace(entry.payload().location(), location.get());
      }
      String json = json(entry, io);
      known = new Known(parsed(entry, json), json.length());
      keep(entry.payload(), known);
    }
    return known.requests();
  }

  private synchronized Known known(Entry.Payload payload) {
    return cache.get(payload);
  }

  private synchronized void keep(Entry.Payload payload, Known known) {
    Known before = cache.put(payload, known);
    cachedCharacters += known.characters() - (before == null ? 0 : before.characters());
    Iterator<Known> eldest = cache.values().iterator();
    while (cache.size() > CACHED_ENTRIES
        || cachedCharacters > CACHED_CHARACTERS && cache.size() > 1) {
      cachedCharacters -= eldest.next().characters();
      eldest.remove();
    }
  }

  /** Whether a path is one of a commit table's payloads; nobody reads or removes others. */
  public static boolean isAtItsPlace(String path, String location) {
    int slash = path.lastIndexOf('/');
    return slash >= 0
        && path.substring(0, slash).equals(folder(location))
        && NAME.matcher(path.substring(slash + 1)).matches();
  }

  /** The folder of payloads; Iceberg's libraries take slashes from a location's end. */
  private static String folder(String location) {
    int end = location.length();
    while (end > 0 && location.charAt(end - 1) == '/') {
      end--;
    }
    return location.substring(0, end) + "/metadata";
  }

  private static void checkPlace(String path, String location) {
    if (!isAtItsPlace(path, location)) {
      throw TxnException.corruptLog(
          String.format(
              "a payload's file lies where no writer of the protocol puts it, and is not read (was the"
                  + " commit table's location changed? set it back past the protocol);"
                  + " location=`%s` folder=`%s`",
              path, folder(location)));
    }
  }

  private static List<UpdateTableRequest> parsed(Entry entry, String json) {
    try {
      PayloadShape.check(Limits.parsed(json));
      // As text: engines bring Iceberg with a Jackson of its own, whose trees are not ours.
      return CommitTransactionRequestParser.fromJson(json).tableChanges();
    } catch (IOException | RuntimeException e) {
      throw TxnException.corruptLog(
          String.format(
              "an entry's payload cannot be read; txn=`%s`: %s", entry.txnId(), e.getMessage()));
    }
  }

  /**
   * Hold what a writer is to log against what readers take: libraries write more than that.
   *
   * @throws TxnException 54000 where it is above a limit
   * @throws IOException saying where
   */
  public static void checkReadable(UpdateTableRequest request) throws IOException {
    CommitTransactionRequest payload = new CommitTransactionRequest(List.of(request));
    String json = CommitTransactionRequestParser.toJson(payload);
    Limits.checkPayload(json);
    PayloadShape.check(Limits.parsed(json));
  }

  /** Where the specification wants a payload: inline, or in a file that is to be written. */
  public static Entry.Payload placed(String tableLocation, String txnId, String json) {
    byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
    if (bytes.length <= INLINE_MAX_BYTES) {
      return new Entry.Payload(json, null, null);
    }
    String sha256 = sha256(bytes);
    String location = String.format("%s/%s", folder(tableLocation), fileName(txnId, sha256));
    return new Entry.Payload(null, location, sha256);
  }

  /**
   * Write the file of a payload.
   *
   * @param atWork told now and then: a slow storage takes its time, and others may wait meanwhile
   */
  public static void write(FileIO io, String location, String json, Runnable atWork) {
    byte[] bytes = json.getBytes(StandardCharsets.UTF_8);
    try (OutputStream out = LocalWrites.through(io).newOutputFile(location).createOrOverwrite()) {
      for (int start = 0; start < bytes.length; start += PIECE_BYTES) {
        atWork.run();
        out.write(bytes, start, Math.min(PIECE_BYTES, bytes.length - start));
      }
    } catch (IOException e) {
      throw new UncheckedIOException("cannot write a payload: " + location, e);
    }
  }

  /** Another name for the file of a payload whose bytes are written once more. */
  public static String again(String location, int number) {
    return location.substring(0, location.length() - ".json".length()) + "-" + number + ".json";
  }

  /** The name of a payload's file: ids are longer than names of files may be. */
  static String fileName(String txnId, String sha256) {
    String id = sha256(txnId.getBytes(StandardCharsets.UTF_8));
    return String.format("txns-payload-%s-%s.json", id.substring(0, 32), sha256.substring(0, 8));
  }

  private static String json(Entry entry, Supplier<FileIO> io) {
    Entry.Payload payload = entry.payload();
    if (payload.inline() != null) {
      return payload.inline();
    }
    InputFile file = io.get().newInputFile(payload.location());
    if (file.getLength() > Limits.PAYLOAD_MAX_BYTES) {
      throw TxnException.corruptLog(
          String.format(
              "a payload has at most %d bytes; location=`%s`",
              Limits.PAYLOAD_MAX_BYTES, payload.location()));
    }
    byte[] bytes;
    try (InputStream in = file.newStream()) {
      bytes = in.readNBytes(Limits.PAYLOAD_MAX_BYTES + 1); // it may have grown
    } catch (IOException e) {
      throw new UncheckedIOException("cannot read a payload: " + payload.location(), e);
    }
    if (!sha256(bytes).equals(payload.sha256())) {
      throw TxnException.corruptLog(
          String.format(
              "a payload's file is not what its entry says; location=`%s` txn=`%s`",
              payload.location(), entry.txnId()));
    }
    try {
      return StandardCharsets.UTF_8.newDecoder().decode(ByteBuffer.wrap(bytes)).toString();
    } catch (CharacterCodingException e) {
      throw TxnException.corruptLog(
          String.format(
              "a payload's file is not UTF-8; location=`%s` txn=`%s`",
              payload.location(), entry.txnId()));
    }
  }

  static String sha256(byte[] bytes) {
    try {
      return HexFormat.of().formatHex(MessageDigest.getInstance("SHA-256").digest(bytes));
    } catch (NoSuchAlgorithmException e) {
      throw new IllegalStateException("every Java has SHA-256", e);
    }
  }
}
