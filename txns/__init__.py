"""
Atomic transactions over many Apache Iceberg tables.

This package is the place of the Python core on pyiceberg. Version 0.1.0 holds
the version number only: transactions are available in Spark SQL, configured
with the package `txns_spark`. The protocol is specified in docs/spec.md.
"""

__all__ = ["__version__"]

__version__ = "0.1.0"
