"""`txns verify-isolation`: random transactions on a catalog, replayed in commit order."""

from __future__ import annotations

import signal
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from txns._cli import exit_codes
from txns._cli.options import TxnsCommand, pass_lake
from txns._cli.words import say
from txns._log.entry import Isolation
from txns._verify import page, run
from txns._verify.plan import BOTH, CLIENTS, PYTHON, SPARK, Plan, clients_of
from txns._verify.spark_driver import check_installed
from txns._verify.workloads import TABLES
from txns.errors import TxnsError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from txns._cli.options import Lake
    from txns._handle import Handle
    from txns._verify.run import Verdict

_SHOWN = 10
_FAILURES_SHOWN = 3
_LEVELS = [level.name.replace("_", " ") for level in Isolation]


@click.command("verify-isolation", cls=TxnsCommand)
@click.option("--seconds", type=click.IntRange(1), default=30, show_default=True, help="How long.")
@click.option("--sessions", type=click.IntRange(1), default=4, show_default=True, help="At once.")
@click.option(
    "--client",
    type=click.Choice(CLIENTS),
    default=PYTHON,
    show_default=True,
    help="What sessions are of; of both, every other one is Spark's.",
)
@click.option(
    "--level",
    type=click.Choice(_LEVELS, case_sensitive=False),
    default=_LEVELS[-1],
    show_default=True,
    help="Of all transactions.",
)
@click.option(
    "--judge-by",
    type=click.Choice(_LEVELS, case_sensitive=False),
    help="Another level: at SNAPSHOT, judged by SERIALIZABLE, it finds what SNAPSHOT allows.",
)
@click.option(
    "--conflicts",
    type=click.Choice(["file", "table"]),
    default="file",
    show_default=True,
    help="In what two transactions have to meet to clash.",
)
@click.option("--kill", is_flag=True, help="Kill processes at random, and start others.")
@click.option(
    "--disturb",
    is_flag=True,
    help="Compact tables, expire snapshots, and append past the protocol beside the sessions.",
)
@click.option("--seed", type=int, help="Of all that is random; another one each time.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("txns-verify"),
    show_default=True,
    help="The folder for what was done and seen.",
)
@pass_lake
def verify_isolation(
    lake: Lake,
    seconds: int,
    sessions: int,
    client: str,
    level: str,
    judge_by: str | None,
    conflicts: str,
    kill: bool,  # noqa: FBT001 -- click's flag
    disturb: bool,  # noqa: FBT001 -- the same
    seed: int | None,
    out: Path,
) -> int:
    """
    Prove isolation on your own catalog.

    Sessions append to lists, write registers, move money and add up to a limit, in tables of a new
    namespace, which goes when they end: each in a process of its own, those of Spark in one driver.
    What each saw is held against the log's order; exit code 1 where it saw what the level forbids,
    or where no transaction committed, more than 1 % got an error that was no conflict, a session
    hung or died of itself, or what was to disturb them never did.
    The folder gets a page, the sessions' journals, and list-append.json and .jsonl, which the
    checkers of Elle's format read. --kill --disturb for hours is a soak.
    """
    clients = _clients(client, sessions)
    handle = lake.handle
    plan = _plan(handle, lake, seconds, level, conflicts, seed, out, clients)
    with _interruptible():
        try:
            _begin_once(handle, level)
            _make_namespace(handle, plan)
        except BaseException:
            Path(plan.folder).rmdir()
            raise
        try:
            say(f"seed {plan.seed}, tables in {_namespace(plan)}, journals in {plan.folder}")
            _make_tables(handle, plan)
            ran = run.run(plan, kill=kill, disturb=disturb)
            verdict = run.judge(handle, plan, ran, judge_by or level)
        except KeyboardInterrupt:
            say(f"stopped before it was judged: what was done and seen stays in {plan.folder}")
            raise
        finally:
            _clean(handle, plan)
    _say(verdict)  # first: there may be no room for the page
    page.write(plan, verdict)
    run.write_elle(plan, verdict)
    fine = not (verdict.anomalies or verdict.doubts)
    return exit_codes.FINE if fine else exit_codes.VIOLATION


def _say(verdict: Verdict) -> None:
    for each in verdict.anomalies[:_SHOWN]:
        say(f"{page.title(each)}: {each.words}", style="red")
    for words in verdict.doubts:
        say(words, style="red")
    for words, count in verdict.failures.most_common(_FAILURES_SHOWN):
        say(f"{count} times: {words}", style="red" if verdict.doubts else "yellow")
    say(page.line(verdict))


def _begin_once(handle: Handle, level: str) -> None:
    """
    See that transactions can begin at all: a run of hours would end with that.

    Raises:
        Unsupported: They are off.
    """
    handle.parts.log.load_or_create()
    handle.begin(isolation=level).rollback()


def _make_namespace(handle: Handle, plan: Plan) -> None:
    """
    Make a namespace of a run's own.

    Raises:
        UsageError: The catalog does not let it be made.
    """
    try:
        handle.parts.catalog.create_namespace(_namespace(plan))
    except Exception as error:
        raise click.UsageError(
            f"its tables are in a namespace of their own, and {_namespace(plan)} cannot be made:"
            f" give who runs it the right to make and drop one, or another --catalog"
            f" ({exit_codes.flat(str(error))})"
        ) from error


def _make_tables(handle: Handle, plan: Plan) -> None:
    """
    Make a run's tables.

    Raises:
        UsageError: The catalog or its storage does not let them be made.
        TxnsError: The protocol's own, which says what to do.
    """
    try:
        run.make_tables(handle, plan.tables)
    except TxnsError:
        raise
    except Exception as error:
        Path(plan.folder).rmdir()
        raise click.UsageError(
            f"its tables cannot be made in {_namespace(plan)}: give who runs it the right to make"
            " and write tables there, and files in the warehouse, or another --catalog"
            f" ({exit_codes.flat(str(error))})"
        ) from error


@contextmanager
def _interruptible() -> Iterator[None]:
    """
    Let SIGTERM do what Ctrl-C does: its sessions end, and its tables go.

    So does the end of its terminal, but under `nohup`.
    """
    stops = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        stops.append(signal.SIGHUP)
    before = [signal.signal(number, signal.default_int_handler) for number in stops]
    try:
        yield
    finally:
        for number, handler in zip(stops, before, strict=True):
            signal.signal(number, handler)


def _clients(client: str, sessions: int) -> tuple[str, ...]:
    """Give the client of each session, where what they need is there."""
    clients = clients_of(client, sessions)
    if client == BOTH and SPARK not in clients:
        raise click.UsageError("sessions of both are two at least: --sessions 2")
    if SPARK in clients:
        check_installed()
    return clients


def _plan(
    handle: Handle,
    lake: Lake,
    seconds: int,
    level: str,
    conflicts: str,
    seed: int | None,
    out: Path,
    clients: tuple[str, ...],
) -> Plan:
    catalog = handle.parts.catalog
    run_id = handle.parts.clock.new_uuid().split("-", maxsplit=1)[0]
    folder = out / run_id
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise click.BadParameter(
            f"no folder can be made there, name another: {exit_codes.flat(str(error))}",
            param_hint="--out",
        ) from error
    return Plan(
        catalog=catalog.name,
        properties=dict(catalog.properties),
        commit_table=lake.commit_table,
        tables={name: f"txns_verify_{run_id}.{name}" for name in TABLES},
        options={"conflicts": conflicts},
        level=level,
        seconds=seconds,
        folder=str(folder),
        seed=int(run_id, 16) if seed is None else seed,
        clients=clients,
    )


def _namespace(plan: Plan) -> str:
    return plan.tables[TABLES[0]].split(".", maxsplit=1)[0]


def _clean(handle: Handle, plan: Plan) -> None:
    """Take the tables away; what cannot go is named."""
    try:
        run.drop_tables(handle, plan.tables)
        handle.parts.catalog.drop_namespace(_namespace(plan))
    except Exception as error:  # noqa: BLE001 -- what was found is told all the same
        say(
            f"the tables of {_namespace(plan)} stay, and nobody needs them: have them dropped, and"
            f" the namespace ({exit_codes.flat(str(error))})",
            style="yellow",
        )
    except KeyboardInterrupt:
        say(f"the tables of {_namespace(plan)} may stay: they were going", style="yellow")
        raise
