package io.txns.iceberg;

import org.apache.iceberg.catalog.TableIdentifier;

/**
 * What a purge has removed.
 *
 * @param table the table's name, which is free again
 * @param deletedFiles how many files are gone, those of metadata included
 * @param keptData whether the data files stay, because of {@code gc.enabled=false}
 * @param keptFiles how many files stay that its metadata names, since they do not lie below its
 *     location, or another table uses them
 */
public record Purged(TableIdentifier table, int deletedFiles, boolean keptData, int keptFiles) {}
