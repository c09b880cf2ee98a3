"""Hostile bytes for both cores: what somebody who may write the commit table can put there."""
