"""One data table as of a timestamp: its mark, its logged state, and the log laid over it."""
