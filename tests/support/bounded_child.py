"""A process that reads files within bounded memory: `bounded_child.py BYTES PATH...`.

It prints a line of JSON for each: what was raised, in words, or "read". Anything but an error of the package or of the
system ends it.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import molrec_convert
from molrec_convert.inspect.validation.record import validate
from molrec_convert.model import Frame, Record


def sentences(paths: Iterable[Path], *, memory: int = 2**30, seconds: float = 120) -> list[str]:
    """What becomes of files in a process of their own that has no more than `memory` bytes."""
    arguments = [sys.executable, __file__, str(memory), *map(str, paths)]
    environment = {**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
    done = subprocess.run(arguments, capture_output=True, text=True, timeout=seconds, env=environment)
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines()]


def read_everything(path: Path) -> None:
    """All values of the records in a file."""
    with molrec_convert.open(path) as source:
        for record in [source] if isinstance(source, Record) else source:
            for frame in (record.system, record.frame):
                if frame is not None:
                    _look_at(frame)
            if record.trajectory is not None:
                for batch in record.trajectory.batches():
                    _ = [block.nbytes for block in batch.blocks.values()]
            _ = record.meta, record.forcefield, record.observables, record.metrics


def _look_at(frame: Frame) -> None:
    frame.check()
    for block in frame.blocks.values():
        for column in block.columns.values():
            _ = column.values, column.validity


def main() -> None:
    memory = int(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_AS, (memory, memory))
    for path in map(Path, sys.argv[2:]):
        try:
            read_everything(path)
            told = "read"
        except (molrec_convert.MolrecError, OSError) as error:
            told = str(error)
        if path.name.endswith((".mrec", ".mrec.zip")):
            validate(path)
        print(json.dumps(told), flush=True)


if __name__ == "__main__":
    main()
