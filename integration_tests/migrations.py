"""Write a folder of Alembic migrations, with the env.py that docs/sqlalchemy.md shows."""

from __future__ import annotations

import textwrap
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pathlib import Path

    import sqlalchemy as sa

_ENV = """
    from alembic import context
    from sqlalchemy import create_engine
    from sqlalchemy_txns import run_transaction

    def migrate(connection):
        context.configure(connection=connection, target_metadata=None)
        with context.begin_transaction():
            context.run_migrations()
        context.config.attributes.get("before_commit", lambda: None)()

    engine = create_engine(context.config.get_main_option("sqlalchemy.url"))
    run_transaction(engine, migrate)
"""
_REVISION = """
    import sqlalchemy as sa
    from alembic import op

    revision, down_revision = {revision!r}, {down!r}
    branch_labels = depends_on = None

    def upgrade():
        {upgrade}

    def downgrade():
        {downgrade}
"""
_CREATE = "op.create_table('t', sa.Column('id', sa.Integer, primary_key=True))"
_ADD = "op.add_column('t', sa.Column('name', sa.String))"
# Of each: upgrade and downgrade.
ONE = (_CREATE, "op.drop_table('t')")
TWO = (_ADD, "op.drop_column('t', 'name')")
FAILS = (f"{_ADD.replace('name', 'more')}; raise RuntimeError", "pass")


def config(folder: Path, url: str) -> Any:
    """Return Alembic's configuration of a folder of migrations."""
    from alembic.config import Config  # noqa: PLC0415  (its import registers plugins)

    made = Config()
    made.set_main_option("script_location", str(folder))
    made.set_main_option("sqlalchemy.url", url)
    return made


def write(folder: Path, *steps: tuple[str, str]) -> None:
    """Write a folder of migrations, one after the other: r1, r2, ...; or more of them."""
    versions = folder / "versions"
    versions.mkdir(parents=True, exist_ok=True)
    (folder / "env.py").write_text(textwrap.dedent(_ENV))
    for number, (upgrade, downgrade) in enumerate(steps, 1):
        text = textwrap.dedent(_REVISION).format(
            revision=f"r{number}",
            down=f"r{number - 1}" if number > 1 else None,
            upgrade=upgrade,
            downgrade=downgrade,
        )
        (versions / f"r{number}.py").write_text(text)


def upgrade_beside(config: Any, engine: sa.Engine) -> None:
    """Upgrade to the newest revision as another process would: past the env.py that runs here."""
    from alembic.operations import Operations  # noqa: PLC0415  (its import registers plugins)
    from alembic.runtime.migration import MigrationContext  # noqa: PLC0415  (the same)
    from alembic.script import ScriptDirectory  # noqa: PLC0415  (the same)

    script = ScriptDirectory.from_config(config)
    steps = {"fn": lambda heads, _context: script._upgrade_revs("head", heads)}
    with engine.begin() as connection:
        context = MigrationContext.configure(connection, opts=steps)
        with Operations.context(context):
            context.run_migrations()
