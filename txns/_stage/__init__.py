"""What a transaction has written and not committed."""
