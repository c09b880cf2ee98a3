package io.txns.iceberg.meta;

import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.iceberg.TableMetadata;
import org.apache.iceberg.catalog.TableIdentifier;
import org.apache.iceberg.io.FileIO;

/** Tables as they were read, which others may move meanwhile: what is said of them moves no row. */
public final class LookedAtRows extends LockedRows {
  /**
   * @param tables as they were read, from files
   * @param io how the catalog reaches all of its files
   */
  public LookedAtRows(Map<TableIdentifier, TableMetadata> tables, FileIO io, KnownMetadata known) {
    super(tables.keySet(), files(tables, known), Set.of(), io, known);
  }

  private static Map<TableIdentifier, String> files(
      Map<TableIdentifier, TableMetadata> tables, KnownMetadata known) {
    tables.values().forEach(known::add);
    return tables.entrySet().stream()
        .collect(
            Collectors.toMap(Map.Entry::getKey, table -> table.getValue().metadataFileLocation()));
  }

  @Override
  public boolean isLocked(TableIdentifier table) {
    return false;
  }

  @Override
  protected void move(List<Moved> moves) {
    throw new IllegalStateException("rows that were looked at are not locked");
  }

  @Override
  protected void send() {
    move(List.of());
  }

  @Override
  protected void end() {}
}
