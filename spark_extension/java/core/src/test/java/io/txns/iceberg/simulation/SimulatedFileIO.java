package io.txns.iceberg.simulation;

import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.util.Base64;
import java.util.Map;
import org.apache.iceberg.exceptions.AlreadyExistsException;
import org.apache.iceberg.exceptions.NotFoundException;
import org.apache.iceberg.inmemory.InMemoryInputFile;
import org.apache.iceberg.io.FileIO;
import org.apache.iceberg.io.InputFile;
import org.apache.iceberg.io.OutputFile;
import org.apache.iceberg.io.PositionOutputStream;
import org.apache.iceberg.io.SeekableInputStream;

/**
 * The simulation's storage: a file is read in one step, and written in one when it is closed.
 *
 * <p>Public with a constructor without arguments, since Iceberg's REST catalog makes it by name.
 */
public final class SimulatedFileIO implements FileIO {
  private Map<String, String> properties = Map.of();

  @Override
  public void initialize(Map<String, String> newProperties) {
    properties = newProperties;
  }

  @Override
  public Map<String, String> properties() {
    return properties;
  }

  @Override
  public InputFile newInputFile(String location) {
    return new Input(location, -1);
  }

  @Override
  public InputFile newInputFile(String location, long length) {
    return new Input(location, length);
  }

  @Override
  public OutputFile newOutputFile(String location) {
    return new Output(location);
  }

  /** A file that is not there is deleted, as object stores see it. */
  @Override
  public void deleteFile(String location) {
    try {
      SimulatedThread.current().step("delete", at(location));
    } catch (StepFailed e) {
      if (!e.is("FileNotFound")) {
        throw failure(e, location);
      }
    }
  }

  private static ObjectNode at(String location) {
    return Json.object().put("location", location);
  }

  private static RuntimeException failure(StepFailed e, String location) {
    return switch (e.type()) {
      case "FileNotFound" -> new NotFoundException(e, "File does not exist: %s", location);
      case "AlreadyExists" -> new AlreadyExistsException(e, "File already exists: %s", location);
      default -> new UncheckedIOException(new IOException(e.getMessage(), e));
    };
  }

  /** Reads once, whatever is asked first: its length or its bytes. */
  private static final class Input implements InputFile {
    private final String location;
    private final long knownLength;
    private InMemoryInputFile content;

    private Input(String location, long knownLength) {
      this.location = location;
      this.knownLength = knownLength;
    }

    private InMemoryInputFile content() {
      if (content == null) {
        try {
          String read = SimulatedThread.current().step("read", at(location)).asText();
          content = new InMemoryInputFile(location, Base64.getDecoder().decode(read));
        } catch (StepFailed e) {
          throw failure(e, location);
        }
      }
      return content;
    }

    @Override
    public long getLength() {
      return knownLength >= 0 ? knownLength : content().getLength();
    }

    @Override
    public SeekableInputStream newStream() {
      return content().newStream();
    }

    @Override
    public String location() {
      return location;
    }

    @Override
    public boolean exists() {
      try {
        return SimulatedThread.current().step("exists", at(location)).asBoolean();
      } catch (StepFailed e) {
        throw failure(e, location);
      }
    }
  }

  private record Output(String location) implements OutputFile {
    @Override
    public PositionOutputStream create() {
      return new Stream(location);
    }

    @Override
    public PositionOutputStream createOrOverwrite() {
      return new Stream(location);
    }

    @Override
    public InputFile toInputFile() {
      return new Input(location, -1);
    }
  }

  /** A file in the making: it exists from its closing on, all or nothing. */
  private static final class Stream extends PositionOutputStream {
    private final String location;
    private final ByteArrayOutputStream content = new ByteArrayOutputStream();
    private boolean closed;

    private Stream(String location) {
      this.location = location;
    }

    @Override
    public long getPos() {
      return content.size();
    }

    @Override
    public void write(int one) {
      content.write(one);
    }

    @Override
    public void write(byte[] bytes, int offset, int length) {
      content.write(bytes, offset, length);
    }

    @Override
    public void close() throws IOException {
      if (closed) {
        return;
      }
      closed = true;
      String encoded = Base64.getEncoder().encodeToString(content.toByteArray());
      try {
        SimulatedThread.current().step("write", at(location).put("content", encoded));
      } catch (StepFailed e) {
        if (e.is("AlreadyExists")) {
          throw failure(e, location);
        }
        throw new IOException(e.getMessage(), e);
      }
    }
  }
}
