"""The process in which work is interrupted, as tests and scripts see it."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any

from crashes import shim

_TESTS = Path(__file__).parent.parent


class Harness:
    """A process that interrupts work and judges what is left; a context manager.

    Its folder is in memory where the system has such a place: nothing here waits for a disk.
    """

    def __init__(self) -> None:
        memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
        self._folder = Path(os.path.realpath(tempfile.mkdtemp(prefix="molrec-crashes-", dir=memory)))
        paths = [str(_TESTS), *filter(None, sys.path)]
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join(dict.fromkeys(paths)),
            "LD_PRELOAD": str(shim.build(self._folder)),
            shim.LIBRARY: str(self._folder / "shim.so"),
            "TMPDIR": tempfile.gettempdir(),
            "OMP_NUM_THREADS": "1",
            "OPENBLAS_NUM_THREADS": "1",
            "MPLBACKEND": "agg",
        }
        command = [sys.executable, "-m", "crashes.child", str(self._folder / "work")]
        self._process = subprocess.Popen(
            command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def run(self, kind: str, name: str, *, seed: int = 1, **how: Any) -> dict[str, Any]:
        """Do an experiment, `kills`, `failing` or `power`, with a workload, and return its counts."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"kind": kind, "name": name, "seed": seed} | how) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline() or '{"failed": "the process ended"}')
        assert "failed" not in answer, answer["failed"]
        return answer

    def close(self) -> None:
        """End the process and remove its folder."""
        self._process.communicate()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Harness:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
