"""A process that migrates until it is killed: `migration_child.py TARGET WORKERS DEDUPE AS WAITS INPUT...`.

With WAITS it does not end by itself: when all inputs are done it waits for its end.
"""

from __future__ import annotations

import signal
import sys
from pathlib import Path


def main() -> None:
    from migration_inputs import METAL

    from molrec_convert.migration import Settings, migrate, migrate_records
    from molrec_convert.migration.outputs.outcome import NobodyWatches

    class Waiting(NobodyWatches):
        """Waits when all inputs are done, before the target has its name."""

        left = 0

        def stage(self, label: str, inputs: int, nbytes: int) -> None:
            self.left = 2**62 if label == "looking at inputs" else inputs

        def advance(self, inputs: int, nbytes: int, records: int, failures: int) -> None:
            self.left -= inputs
            if self.left <= 0:
                signal.pause()

    target, workers, dedupe, kind, waits, *inputs = sys.argv[1:]
    watcher = Waiting() if waits == "1" else None
    print("begin", flush=True)
    if kind == "records":
        migrate_records(inputs, Path(target), Settings(), workers=int(workers), watcher=watcher)
    else:
        settings = Settings(units=METAL, dedupe=dedupe == "1")
        migrate(inputs, Path(target), settings, workers=int(workers), commit_seconds=0.0, watcher=watcher)
    print("done", flush=True)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    main()
