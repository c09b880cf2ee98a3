"""
The dbt adapter's macros, as the Python package dbt.include.txns.

It is a package so that an installation carries the files and `dbt.adapters.txns` finds them.
"""
