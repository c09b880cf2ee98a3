"""The adapter's version: its minor follows dbt-spark's, which it extends."""

version = "1.11.0"
