"""What commands find out of others' errors is shown without the secrets in these."""

from __future__ import annotations

import pytest

from tests.txns.backups import LOG, restore

SECRET = "correct-horse"
COMMANDS = [
    ("status",),
    ("status", "--json"),
    ("check",),
    ("check", "--json"),
    ("read-at",),
    ("read-at", "--json"),
    ("recover", "--dry-run"),
    ("recover", "--dry-run", "--json"),
    ("recover",),
    ("recover", "--json"),
    ("apply",),
    ("off",),
    ("metrics",),
]


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
@pytest.mark.parametrize("name", ["shop.b", LOG])
def test_no_command_shows_a_secret(shop, cli, command, name):
    """The catalog names a file by a place with a password, which storage repeats."""
    place = f"file:///gone/user:{SECRET}@host/v1.metadata.json"
    restore(shop.catalog, {name: place}, [name])
    said = cli(*command)
    assert SECRET not in said.output
    if name == LOG or command in {("status",), ("check",)}:
        assert "user:***@host" in said.output
