"""
The place of the SQLAlchemy dialect; nothing is here yet.

Version 0.1.0 registers no dialect: `create_engine("txns://...")` does not work.
"""
