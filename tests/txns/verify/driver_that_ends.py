"""A driver of Spark's sessions that ends by itself when the first transaction begins."""

from __future__ import annotations

import json
import sys


def main() -> None:
    """Answer as txns_spark._session_server does, until a BEGIN."""
    wanted = json.loads(sys.stdin.readline())
    print(json.dumps({"ready": True, "sessions": wanted["sessions"]}), flush=True)
    for line in sys.stdin:
        asked = json.loads(line)
        if asked["statement"].startswith("BEGIN"):
            return
        print(json.dumps({"session": asked["session"], "rows": []}), flush=True)


if __name__ == "__main__":
    main()
