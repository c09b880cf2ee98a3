"""What an operator does and asks: repair, purge, hold, health, invariants."""
