"""A process that migrates until it is killed: `migration_child.py TARGET WORKERS DEDUPE AS INPUT...`."""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    from migration_inputs import METAL

    from molrec_convert.migration import Settings, migrate, migrate_records

    target, workers, dedupe, kind, *inputs = sys.argv[1:]
    print("begin", flush=True)
    if kind == "records":
        migrate_records(inputs, Path(target), Settings(), workers=int(workers))
    else:
        settings = Settings(units=METAL, dedupe=dedupe == "1")
        migrate(inputs, Path(target), settings, workers=int(workers), commit_seconds=0.0)
    print("done", flush=True)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parent))
    main()
