"""
`make fuzz INPUTS=n`: hostile bytes for the cores, and what each says of them.

    python -m tests.fuzz --inputs 200000 --seed 1                what Python's core says
    python -m tests.fuzz --inputs 200000 --core java             what Java's says
    python -m tests.fuzz --inputs 200000 --core both             both, which have to say the same
    python -m tests.fuzz --seed 1 --only 17 --core both          one, and the whole of it
    python -m tests.fuzz --limits --core both                    payloads of up to 64 MiB
    python -m tests.fuzz --lake 2000                             records in a real lake
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import tempfile
from pathlib import Path

from tests.fuzz import at_limits, lake, verdicts
from tests.fuzz.inputs import hostile
from tests.fuzz.judges import JavaJudge, PythonJudge
from tests.fuzz.run import GREATEST, SMALL, Limit, Run

_HEAP_MIB = {SMALL: 256, GREATEST: 2_048}
_TOLD_MAX = 50


def main() -> int:
    """Run the inputs of the command line; 1 where a core says what it may not."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--inputs", type=int, default=20_000, help="how many")
    parser.add_argument("--seed", type=int, help="of all of them; another one each time")
    parser.add_argument("--first", type=int, default=0, help="the number of the first one")
    parser.add_argument("--core", choices=["python", "java", "both"], default="python")
    parser.add_argument("--only", type=int, help="this one alone, and all that is said of it")
    parser.add_argument("--limits", action="store_true", help="payloads of up to 64 MiB")
    parser.add_argument("--lake", type=int, help="how many records to put into a real lake")
    arguments = parser.parse_args()
    seed = random.SystemRandom().randrange(10**6) if arguments.seed is None else arguments.seed
    print(f"seed={seed}", flush=True)
    if arguments.lake is not None:
        return _run_lake(seed, arguments.lake)
    limit = GREATEST if arguments.limits else SMALL
    judges = _judges(arguments.core, limit)
    if arguments.only is not None:
        return _show(seed, arguments.only, judges)
    run = Run(limit)
    numbers = range(arguments.first, arguments.first + arguments.inputs)
    given = at_limits.inputs() if arguments.limits else (hostile(seed, n) for n in numbers)
    run.go(given, judges)
    return _report(run)


def _judges(core: str, limit: Limit) -> list[PythonJudge | JavaJudge]:
    judges: list[PythonJudge | JavaJudge] = []
    if core != "java":
        judges.append(PythonJudge())
    if core != "python":
        judges.append(JavaJudge(_HEAP_MIB[limit]))
    return judges


def _report(run: Run) -> int:
    for (kind, word), count in sorted(run.verdicts.items()):
        print(f"{kind:10} {word:12} {count}")
    print("\n".join(run.told[:_TOLD_MAX]))
    print(f"of_libraries={run.of_libraries}")
    print(run)
    return int(run.crashes + run.differences > 0)


def _show(seed: int, number: int, judges: list[PythonJudge | JavaJudge]) -> int:
    one = hostile(seed, number)
    print(json.dumps(one))
    for judge in judges:
        if isinstance(judge, JavaJudge):
            print("java:", judge.whole(one))
        else:
            print("python:", verdicts.verdict(one))
            print(verdicts.said(one))
    return 0


def _run_lake(seed: int, count: int) -> int:
    with tempfile.TemporaryDirectory() as folder:
        report = lake.run(Path(folder), seed, count)
    print("\n".join(report.told[:_TOLD_MAX]))
    print(report)
    return int(report.crashes + report.touched > 0)


if __name__ == "__main__":
    sys.exit(main())
