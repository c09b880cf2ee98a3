"""Proof that users can run: random transactions on their own catalog, replayed in commit order."""
