"""
The command line `txns`: what an administrator does without writing a program.

Guide: docs/python.md. Other packages add commands under the entry-point group
`txns.commands`: the name of the entry point is the command's, its object a `click.Command`.
"""

from txns._cli._care import forget, register, repair
from txns._cli._check import check
from txns._cli._cuts import hold, holds, read_at, release
from txns._cli._demo import demo
from txns._cli._group import TxnsGroup
from txns._cli._init import init
from txns._cli._purge import purge
from txns._cli._status import status
from txns._cli._timeline import log, show
from txns._cli._upgrade import upgrade
from txns._cli._upkeep import advance, apply, off, on, tidy, wait

__all__ = ["main"]

main = TxnsGroup(
    name="txns",
    help="Atomic transactions over many Apache Iceberg tables: look, check and repair.",
    epilog="Exit codes: 0 fine, 1 violation, 2 usage, 3 conflict, 4 unknown outcome, 5 corrupt.",
    commands=[
        advance,
        apply,
        check,
        demo,
        forget,
        hold,
        holds,
        init,
        log,
        off,
        on,
        purge,
        read_at,
        register,
        release,
        repair,
        show,
        status,
        tidy,
        upgrade,
        wait,
    ],
)
