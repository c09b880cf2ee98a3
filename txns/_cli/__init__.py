"""
The command line `txns`: what an administrator does without writing a program.

Guide: docs/python.md. Other packages add commands under the entry-point group
`txns.commands`: the name of the entry point is the command's, its object a `click.Command`.
"""

from txns._cli.adopt import adopt
from txns._cli.care import forget, register, repair
from txns._cli.check import check
from txns._cli.cuts import hold, holds, read_at, release
from txns._cli.demo import demo
from txns._cli.group import TxnsGroup
from txns._cli.init import init
from txns._cli.metrics import metrics
from txns._cli.purge import purge
from txns._cli.recover import recover
from txns._cli.settings import settings
from txns._cli.status import status
from txns._cli.timeline import log, show
from txns._cli.upgrade import upgrade
from txns._cli.upkeep import advance, apply, off, on, tidy, wait
from txns._cli.verify_isolation import verify_isolation

__all__ = ["main"]

main = TxnsGroup(
    name="txns",
    help="Atomic transactions over many Apache Iceberg tables: look, check and repair.",
    epilog="Exit codes: 0 fine, 1 violation, 2 usage, 3 conflict, 4 unknown outcome, 5 corrupt.",
    commands=[
        adopt,
        advance,
        apply,
        check,
        demo,
        forget,
        hold,
        holds,
        init,
        log,
        metrics,
        off,
        on,
        purge,
        read_at,
        recover,
        register,
        release,
        repair,
        settings,
        show,
        status,
        tidy,
        upgrade,
        verify_isolation,
        wait,
    ],
)
