"""Loaded by a Dask worker that is to be killed by certain inputs; see `killing_worker`."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from killing_worker import KillingWorker

import molrec_convert.migration.engines.parts as dask_work

dask_work.Worker = KillingWorker  # type: ignore[misc]
