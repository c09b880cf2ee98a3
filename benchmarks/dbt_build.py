"""
Measure what transactions cost `dbt build`: our adapter beside dbt-spark on plain Iceberg.

One project of 20 models (tables, and incremental ones that merge or append), a seed and tests is
built in turns with both, each time by a new process, as users do. Both catalogs are SQLite with
local files, both have four threads and the method `session`; ANSI mode is on with ours, and off
with dbt-spark, which allows no other. Before the turns each project is built from nothing; a turn
then rebuilds what is there.

    make bench NAME=dbt_build
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from _dbt_projects import Project, plain, transactional
from _measure import Times, milliseconds, ratio, take_turns, write

if TYPE_CHECKING:
    from collections.abc import Callable

TURNS = 10
WARM_UP = 0
TARGET = 1.10
THREADS = 4
ROWS = 20_000

SOURCE = """
{{{{ config(materialized='table') }}}}
select id, id % 50 as item, id % 7 as shop, id * 0.5 as amount from range({rows})
"""
TABLE = """
{{{{ config(materialized='table') }}}}
select item, shop, sum(amount) as amount from {{{{ ref('source_{source}') }}}} group by item, shop
"""
MERGED = """
{{{{ config(materialized='incremental', incremental_strategy='merge',
            unique_key=['item', 'shop']) }}}}
select item, shop, amount from {{{{ ref('table_{source}') }}}}
{{% if is_incremental() %}} where shop < 3 {{% endif %}}
"""
APPENDED = """
{{{{ config(materialized='incremental', incremental_strategy='append') }}}}
select item, shop, amount from {{{{ ref('table_{source}') }}}}
{{% if is_incremental() %}} where shop = 3 {{% endif %}}
"""
TESTS = """
models:
  - name: table_0
    columns: [{name: item, data_tests: [not_null]}]
seeds:
  - name: shops
    columns: [{name: shop, data_tests: [unique, not_null]}]
"""


def files() -> dict[str, str]:
    """Return the project: five sources, and three models of each."""
    made = {
        "models/schema.yml": TESTS,
        "seeds/shops.csv": "shop,name\n" + "".join(f"{n},shop {n}\n" for n in range(7)),
    }
    for number in range(5):
        made[f"models/source_{number}.sql"] = SOURCE.format(rows=ROWS)
        made[f"models/table_{number}.sql"] = TABLE.format(source=number)
        made[f"models/merged_{number}.sql"] = MERGED.format(source=number)
        made[f"models/appended_{number}.sql"] = APPENDED.format(source=number)
    return made


def main() -> None:
    """Run the comparison and write results/dbt_build.json."""
    iceberg = {kind: {"+file_format": "iceberg"} for kind in ("models", "seeds")}
    with tempfile.TemporaryDirectory(prefix="txns-bench-") as temporary:
        folder = Path(temporary)
        ours = Project(folder / "ours", transactional(folder / "lake", threads=THREADS), files())
        target = plain(folder / "plain", threads=THREADS)
        theirs = Project(folder / "theirs", target, files(), iceberg)
        for project in (ours, theirs):
            project.run("build")
        times = take_turns(
            {"txns": _build(ours), "spark": _build(theirs)}, warm_up=WARM_UP, turns=TURNS
        )
    against = "dbt-spark on plain Iceberg"
    inside = [times[name].parts["nodes"] for name in ("txns", "spark")]
    whole = [times[name].parts["build"] for name in ("txns", "spark")]
    write(
        "dbt_build",
        [
            ratio("dbt build, 20 models", *whole, against=against, target=TARGET),
            ratio("what dbt counts: without its own start", *inside, against=against),
            milliseconds("dbt build, txns", whole[0], against="the clock"),
            milliseconds("dbt build, dbt-spark", whole[1], against="the clock"),
        ],
    )


def _build(project: Project) -> Callable[[Times, int], None]:
    def build(times: Times, _: int) -> None:
        with times.part("build"):
            project.run("build")
        times.parts.setdefault("nodes", []).append(project.results()["elapsed_time"])

    return build


if __name__ == "__main__":
    main()
