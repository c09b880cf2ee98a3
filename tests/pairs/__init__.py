"""Pairs of transactions, held against brute force over rows: which of them really clash."""
