"""The root of the command line: commands of this package and of others, errors in one line."""

from __future__ import annotations

import logging
import sys
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

import click

from txns._cli import exit_codes
from txns._cli.options import Lake, common_options
from txns._cli.words import complain
from txns._log.entry import THIS_ENGINE
from txns._logger import logger, masked_traceback

if TYPE_CHECKING:
    from collections.abc import Sequence

PLUGINS = "txns.commands"
"""The entry-point group through which other packages add commands."""


class TxnsGroup(click.Group):
    """Runs a command; whatever it raises becomes one line and an exit code."""

    def __init__(self, *, commands: Sequence[click.Command], **settings: Any) -> None:
        version = click.version_option(
            message=THIS_ENGINE, help="Show the versions of Python, pyiceberg and txns."
        )
        super().__init__(commands=commands, params=common_options(), **settings)
        version(self)

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Give the names of all commands, those of other packages included."""
        return sorted({*super().list_commands(ctx), *_plugins()})

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Give a command; one of another package is loaded when it is needed."""
        own = super().get_command(ctx, cmd_name)
        plugin = _plugins().get(cmd_name)
        if own is not None or plugin is None:
            return own
        return _load(plugin)

    def main(
        self,
        args: Sequence[str] | None = None,
        prog_name: str | None = "txns",
        complete_var: str | None = None,
        standalone_mode: bool = True,  # noqa: FBT001, FBT002 -- click's signature
        **extra: Any,
    ) -> Any:
        """Run the command line; ends the process, unless `standalone_mode` is false."""
        if not standalone_mode:
            return super().main(args, prog_name, complete_var, standalone_mode=False, **extra)
        lake = Lake()
        handler = _warnings_to_stderr()
        try:
            result = super().main(
                args, prog_name, complete_var, standalone_mode=False, obj=lake, **extra
            )
        except click.ClickException as error:
            # What was typed is in it: a URI in the wrong place, too.
            vars(error)["message"] = exit_codes.flat(error.message)
            error.show()
            sys.exit(error.exit_code)
        except click.Abort:
            click.echo("stopped", err=True)
            sys.exit(exit_codes.STOPPED)
        except Exception as error:  # noqa: BLE001 -- whatever it is ends in a line
            if lake.debug:
                _say_traceback(error)
            else:
                complain(exit_codes.line(error, lake.other_names))
            sys.exit(exit_codes.code(error))
        finally:
            logger("txns").removeHandler(handler)
            lake.close()
        sys.exit(result if isinstance(result, int) else exit_codes.FINE)


def _say_traceback(error: BaseException) -> None:
    click.echo(masked_traceback(error), err=True)


class _OneLine(logging.Formatter):
    """A warning in one line, without the traceback that the record may have."""

    def format(self, record: logging.LogRecord) -> str:
        return f"warning: {exit_codes.flat(record.getMessage())}"


def _warnings_to_stderr() -> logging.Handler:
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_OneLine())
    handler.setLevel(logging.WARNING)
    logger("txns").addHandler(handler)
    return handler


def _plugins() -> dict[str, EntryPoint]:
    return {each.name: each for each in entry_points(group=PLUGINS)}


def _load(plugin: EntryPoint) -> click.Command:
    try:
        command = plugin.load()
    except Exception as error:
        raise click.ClickException(
            f"the command {plugin.name} of {plugin.value} cannot be loaded: {error}"
        ) from error
    if not isinstance(command, click.Command):
        raise click.ClickException(f"the command {plugin.name} of {plugin.value} is none of click")
    return command
