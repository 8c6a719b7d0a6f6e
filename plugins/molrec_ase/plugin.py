"""ASE's files as formats, and what the package offers with `Atoms`.

Importing this module loads neither numpy nor ASE.
"""

from __future__ import annotations

from dataclasses import dataclass

from molrec_ase.detect import database_score, is_mapped, trajectory_score
from molrec_convert.formats import ARRANGEMENTS, Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_convert.meaning.labels import LabelOptions

__all__ = ["ASE_DB", "ASE_TRAJ", "FUNCTIONS", "AseOptions", "AseTarget", "molrec_formats"]


@dataclass(frozen=True)
class AseOptions(LabelOptions):
    """How a file is read: `data.NAME` is what stands under a name in the data of a row."""


@dataclass(frozen=True)
class AseTarget(LabelOptions):
    """How a database is written: `data.NAME` is what stands under a name in the data of a row."""


#: What the methods of records and the functions of the package that need ASE are: name → "module:function".
FUNCTIONS = {
    "from_ase": "molrec_ase.api:from_ase",
    "iter_ase": "molrec_ase.api:iter_ase",
    "to_ase": "molrec_ase.api:to_ase",
}

_WRITTEN = "in ASE's units; what a row has no column for in its data, under the key molrec"

ASE_DB = Format(
    name="ase-db",
    title="ASE database",
    patterns=("*.db", "*.aselmdb"),
    sniff=database_score,
    reads="molrec_ase.reader:read_database",
    read_options=AseOptions,
    writes="molrec_ase.writer:write_database",
    write_options=AseTarget,
    carries={
        "meta": Capability("none", _WRITTEN),
        "system": Capability(
            "elements, tags, masses, constraints, key-value pairs, data", "of the atoms; no relations"
        ),
        "frame": Capability("none", "a row"),
        "trajectory": Capability("exact", f"a row for each frame, {_WRITTEN}"),
    },
    extra="ase",
    reference="https://ase-lib.org/ase/db/db.html",
    kind="record",
    arrangements=ARRANGEMENTS,
    takes_collections=True,
    predicts="molrec_ase.writer:predict",
    units={"preset": "metal"},
    crashes=is_mapped,
)

ASE_TRAJ = Format(
    name="ase-traj",
    title="ASE trajectory",
    patterns=("*.traj",),
    sniff=trajectory_score,
    reads="molrec_ase.reader:read_trajectory",
    read_options=AseOptions,
    carries={
        "system": Capability("elements, and what else never changes", "none"),
        "trajectory": Capability("exact", "none"),
    },
    extra="ase",
    reference="https://ase-lib.org/ase/io/trajectory.html",
    arrangements=ARRANGEMENTS,
)


@hookimpl
def molrec_formats() -> tuple[Format, ...]:
    """Return databases and trajectories."""
    return (ASE_DB, ASE_TRAJ)
