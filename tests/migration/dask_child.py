"""A process that migrates on Dask workers and is killed after so many parts: `dask_child.py TARGET ADDRESS N INPUT`."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path


def small_parts() -> None:
    """A part of each task, a task of a few inputs."""
    from molrec_convert.migration.engines import dask as dask_engine
    from molrec_convert.migration.inputs import tasks

    dask_engine._PART_TASKS, tasks._TASK_INPUTS = 1, 6


def main() -> None:
    from migration_inputs import METAL

    from molrec_convert.migration import Settings, migrate
    from molrec_convert.migration.engines.dask import DaskEngine

    target, address, most, source = sys.argv[1:]
    left = int(most)

    class Dying(DaskEngine):
        def _result(self, future):
            nonlocal left
            found = super()._result(future)
            left -= isinstance(found, str)
            if left < 0:
                os.kill(os.getpid(), signal.SIGKILL)
            return found

    small_parts()
    migrate([source], target, Settings(units=METAL, dedupe=True), engine=Dying(address), commit_seconds=0.0)


if __name__ == "__main__":
    sys.path[:0] = [str(Path(__file__).parent), str(Path(__file__).parents[1] / "support")]
    main()
