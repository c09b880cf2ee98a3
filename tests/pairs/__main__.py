"""
`python -m tests.pairs --pairs 20000`: who is refused, and who should have been.

    python -m tests.pairs --pairs 20000 --seed 1
"""

from __future__ import annotations

import argparse
import random
import sys
import tempfile
from pathlib import Path

from tests.pairs.run import MIXED, Tally, run


def main() -> int:
    """Run pairs; 1 where one of them has ended as it must not."""
    parser = argparse.ArgumentParser(prog="python -m tests.pairs")
    parser.add_argument("--pairs", type=int, default=1000, help="how many")
    parser.add_argument("--seed", type=int, help="of all of them; another one each time")
    parser.add_argument("--conflicts", choices=["file", "table"], default="file")
    parser.add_argument("--days", type=int, help="of how many days all tables are; mixed if not")
    arguments = parser.parse_args()
    days = MIXED if arguments.days is None else (arguments.days,)
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed={seed}", flush=True)
    tally = Tally()
    with tempfile.TemporaryDirectory() as folder:
        run(Path(folder), seed, arguments.pairs, arguments.conflicts, tally, days=days)
    print(tally)
    return 1 if tally.faults else 0


if __name__ == "__main__":
    sys.exit(main())
