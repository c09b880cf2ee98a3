"""The commit table as a log: entries and their bytes, the head and the swap, the archive."""
