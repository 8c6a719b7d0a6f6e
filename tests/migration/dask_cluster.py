"""A Dask scheduler and workers as processes of their own, on the loopback interface."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path


class Cluster:
    """A scheduler and so many workers; a context manager, which ends them."""

    def __init__(self, folder: Path, workers: int, *arguments: object, **environment: str) -> None:
        self.folder, self._environment = folder, {**os.environ, **environment}
        folder.mkdir()
        self._processes: list[subprocess.Popen[bytes]] = []
        known = folder / "scheduler.json"
        self.scheduler = self._start("scheduler", "--host", "127.0.0.1", "--port", "0", "--scheduler-file", known)
        end = time.monotonic() + 300
        while not (known.exists() and known.read_text().strip().endswith("}")):
            assert time.monotonic() < end, "the scheduler did not start"
            time.sleep(0.05)
        self.address: str = json.loads(known.read_text())["address"]
        self.workers = [self.add_worker(*arguments) for _ in range(workers)]

    def add_worker(self, *arguments: object) -> subprocess.Popen[bytes]:
        """One more worker, a single process that nobody starts again, with a working directory of its own."""
        places = ("--host", "127.0.0.1", "--nthreads", 1, "--no-nanny", "--local-directory", self.folder)
        return self._start("worker", self.address, *places, *arguments)

    def _start(self, what: str, *arguments: object) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", "--no-dashboard", *map(str, arguments)]
        with open(self.folder / f"{what}.log", "ab") as log:
            process = subprocess.Popen(
                command, cwd=self.folder, stdout=log, stderr=log, env=self._environment, start_new_session=True
            )
        self._processes.append(process)
        return process

    def __enter__(self) -> Cluster:
        return self

    def __exit__(self, *error: object) -> None:
        for process in reversed(self._processes):
            process.send_signal(signal.SIGKILL)
            process.wait()
