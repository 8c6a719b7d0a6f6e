"""Checks a stored record against every rule of the contract: all findings, never a crash, memory bounded.

An error is what a reader may or must refuse; a warning is what a reader copes with but a writer should not have left.
Source: Record; Zarr V3 binding; Trajectory; Force field; Results.
"""

from __future__ import annotations

import os
from pathlib import Path

from molrec_convert.inspect.tree import is_collection, is_set
from molrec_convert.inspect.validation.collection import check_collection, check_set
from molrec_convert.inspect.validation.documents import check_documents, check_forcefield, check_observables
from molrec_convert.inspect.validation.findings import Finding, Findings, Severity, check_root, check_zip
from molrec_convert.inspect.validation.frames import FrameChecks
from molrec_convert.inspect.validation.metrics import check_metrics
from molrec_convert.inspect.validation.trajectory import TrajectoryChecks
from molrec_convert.stores.zarr.v3.zip_storage import leaves_no_sign, open_storage

__all__ = ["Finding", "Severity", "validate"]


def validate(path: str | os.PathLike[str]) -> list[Finding]:
    """Return all findings on the record, or the collection, at `path`, in the order of its parts."""
    findings = Findings()
    where = Path(path)
    if is_set(where):
        check_set(where, findings)
        return findings.items
    if is_collection(where):
        with findings.guard(""):
            check_collection(where, findings)
        return findings.items
    storage = None
    with findings.guard(""):
        if where.is_file():
            check_zip(where, findings)
        storage = open_storage(where)
    if storage is None:
        return findings.items
    try:
        with findings.guard(""):
            root = check_root(storage, findings)
            if root is not None:
                with findings.guard("meta"):
                    findings.foreign = leaves_no_sign(storage)
                check_documents(storage, root, findings)
                frames = FrameChecks(storage, root, findings)
                frames.check()
                TrajectoryChecks(storage, root, frames, findings).check()
                with findings.guard("forcefield"):
                    check_forcefield(storage, root, frames, findings)
                with findings.guard("observables"):
                    check_observables(storage, root, findings)
                with findings.guard("metrics"):
                    check_metrics(storage, root, findings)
    finally:
        storage.close()
    return findings.items
