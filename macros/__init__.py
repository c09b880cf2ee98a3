"""
The place of the dbt adapter's macros; nothing is here yet.

It is a Python package (dbt.include.txns) so that an installation carries it.
"""
