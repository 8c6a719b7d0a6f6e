"""MolRec as a format of ASE: `ase.io.read`, `ase.io.write`, `ase convert` and `ase gui` find it by its entry point.

`ase.io.read("run.mrec.zip", "0:10:2")` needs no more than the package installed. ASE takes every directory for its own
bundle, so a `.mrec` directory has to be named: `ase.io.read("run.mrec", ":", format="mrec")`.
"""

from __future__ import annotations

from ase.utils.plugins import ExternalIOFormat

__all__ = ["MREC"]

MREC = ExternalIOFormat(
    desc="MolRec record or collection",
    code="+S",
    module="molrec_ase.files",
    glob=["*.mrec", "*.mrec.zip", "*.mrec.lmdb"],
)
