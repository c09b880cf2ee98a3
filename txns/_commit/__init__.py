"""Where a commit happens: validate, swap, apply, tidy."""
