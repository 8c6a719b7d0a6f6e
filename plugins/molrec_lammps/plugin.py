"""The LAMMPS formats: data files, dumps, and runs that join them with the input script and the log.

Importing this module loads neither numpy nor any reader.
"""

from __future__ import annotations

from molrec_convert.formats import Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_lammps import sniffing
from molrec_lammps.options import DataOptions, DumpOptions, RunOptions

__all__ = ["DATA", "DUMP", "RUN", "molrec_formats"]

DATA = Format(
    name="lammps-data",
    title="LAMMPS data file",
    patterns=("*.data", "data.*", "*.lmpdat", "*.lammpsdata"),
    sniff=sniffing.data_score,
    reads="molrec_lammps.data_record:read_data",
    read_options=DataOptions,
    carries={
        "system": Capability(read="atoms and relations exact; force-field coefficients are dropped"),
        "frame": Capability(read="exact"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/read_data.html",
)

DUMP = Format(
    name="lammps-dump",
    title="LAMMPS text dump",
    patterns=("*.lammpstrj", "*.dump", "dump.*", "*.lammpsdump"),
    sniff=sniffing.dump_score,
    reads="molrec_lammps.dump_record:read_dump",
    read_options=DumpOptions,
    carries={
        "system": Capability(read="columns that never change"),
        "trajectory": Capability(read="exact"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/dump.html",
    many_inputs=True,
)

RUN = Format(
    name="lammps-run",
    title="LAMMPS run (directory, input script, log)",
    patterns=("in.*", "*.in", "log.*", "*.log"),
    sniff=sniffing.run_score,
    reads="molrec_lammps.run:read_run",
    read_options=RunOptions,
    carries={
        "system": Capability(read="atoms and relations exact; force-field coefficients are dropped"),
        "frame": Capability(read="exact, of a run without a dump"),
        "trajectory": Capability(read="exact"),
        "method": Capability(read="engine, settings, the commands as text"),
        "status": Capability(read="how the run ended"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/",
    many_inputs=True,
    combines=("lammps-data", "lammps-dump"),
)


@hookimpl
def molrec_formats() -> tuple[Format, ...]:
    """LAMMPS data files, dumps and runs."""
    return (DATA, DUMP, RUN)
