"""
The place of the dbt adapter, on top of dbt-spark; nothing is here yet.

Version 0.1.0 has no `Plugin`: a profile with `type: txns` does not work.
"""
