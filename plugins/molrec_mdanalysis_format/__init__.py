"""What MDAnalysis opens and writes, as one format. Importing this package loads neither numpy nor MDAnalysis.

It stands beside `molrec_mdanalysis` because importing that one is what registers the readers in MDAnalysis.
"""

from __future__ import annotations

from molrec_convert.formats import Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_mdanalysis_format.options import MdaOptions, MdaTarget

__all__ = ["FUNCTIONS", "MDANALYSIS", "molrec_formats"]

#: What functions of the package and methods of records stand for: name → "module:function".
FUNCTIONS = {
    "from_universe": "molrec_mdanalysis.universe:from_universe",
    "to_universe": "molrec_mdanalysis.universe:to_universe",
}

#: Names of files only MDAnalysis knows here. It opens more: `--from mdanalysis`.
_READS = """
    psf top prmtop parm7 prm7 tpr itp gro crd cor inpcrd restrt mol2 pqr pdbqt dms mmtf gsd txyz arc
    dcd xtc trr tng trz ncdf nc trj mdcrd crdbox trc h5md coor namdbin gms config history
"""
_WRITES = "dcd xtc trr gro ncdf nc trz crd mol2 pqr pdbqt coor namdbin h5md"

MDANALYSIS = Format(
    name="mdanalysis",
    title="MDAnalysis: topologies and trajectories",
    patterns=tuple(f"*.{suffix}" for suffix in dict.fromkeys(f"{_READS} {_WRITES}".split())),
    reads="molrec_mdanalysis.record:read_mdanalysis",
    read_options=MdaOptions,
    writes="molrec_mdanalysis.write:write_mdanalysis",
    write_options=MdaTarget,
    carries={
        "system": Capability("attributes of atoms, residues and segments; relations", "what the format has room for"),
        "frame": Capability("none", "as a frame"),
        "trajectory": Capability(
            "positions, velocities, forces, cells as lengths and angles, times, steps, data of the frames",
            "numbers of single precision; what the format has room for",
        ),
    },
    extra="mdanalysis",
    reference="https://docs.mdanalysis.org/stable/documentation_pages/coordinates/init.html",
    many_inputs=True,
    sidecar_of=("pdb", "extxyz", "xyz", "lammps-data", "lammps-dump", "mmcif"),
    predicts="molrec_mdanalysis.write:predict",
    elements="",
    units={"length": "angstrom", "energy": "kJ/mol", "time": "ps", "mass": "dalton", "charge": "e", "angle": "degree"},
    crashes=lambda path: True,
)


@hookimpl
def molrec_formats() -> tuple[Format, ...]:
    """Return the one format."""
    return (MDANALYSIS,)
