"""What pyiceberg lacks: manifests, snapshots, updates and times; no word of the protocol."""
