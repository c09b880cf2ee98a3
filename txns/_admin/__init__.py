"""What an operator does and asks: repair, purge, hold, switch, inventory, history."""
