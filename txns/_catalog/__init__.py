"""The protocol as pyiceberg catalogs: transactions, snapshots, single statements."""
