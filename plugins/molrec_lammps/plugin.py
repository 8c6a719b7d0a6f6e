"""The LAMMPS formats: data files, dumps, and runs that join them with the input script and the log.

Importing this module loads neither numpy nor any reader.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from molrec_convert.formats import Capability, Format
from molrec_convert.hookspecs import hookimpl
from molrec_lammps import detect
from molrec_lammps.options import (
    UNITS_STYLES,
    DataOptions,
    DataTarget,
    DumpOptions,
    DumpTarget,
    RunOptions,
    RunTarget,
    SettingsTarget,
)

if TYPE_CHECKING:
    from molrec_convert.model import Record
    from molrec_convert.quantities.dimensions import UnitConversion
    from molrec_convert.report import Report

__all__ = [
    "AVE_TIME",
    "DATA",
    "DUMP",
    "RUN",
    "SETTINGS",
    "molrec_formats",
    "molrec_style_dimension",
    "molrec_units_converted",
]

DATA = Format(
    name="lammps-data",
    title="LAMMPS data file",
    patterns=("*.data", "data.*", "*.lmpdat", "*.lammpsdata"),
    sniff=detect.data_format_score,
    reads="molrec_lammps.data.record:read_data",
    read_options=DataOptions,
    writes="molrec_lammps.write.data:write_data",
    predicts="molrec_lammps.write.data:predict_data",
    elements="",
    reports_losses_itself=True,
    write_options=DataTarget,
    unit_styles=UNITS_STYLES,
    unconverted=("forcefield", "meta"),
    carries={
        "system": Capability(read="exact: atoms, relations, types", write="exact"),
        "frame": Capability(read="exact", write="exact"),
        "trajectory": Capability(write="one state, the last frame where there is no section frame"),
        "forcefield": Capability(read="exact", write="coefficients; not arguments of styles, mixing, special bonds"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/read_data.html",
    read_many="molrec_lammps.data.joined:read_joined",
)

DUMP = Format(
    name="lammps-dump",
    title="LAMMPS dump: text, YAML, local, grid",
    patterns=("*.lammpstrj", "*.dump", "dump.*", "*.lammpsdump"),
    sniff=detect.dump_score,
    reads="molrec_lammps.dump.record:read_dump",
    read_options=DumpOptions,
    writes="molrec_lammps.dump.write.dump:write_dump",
    predicts="molrec_lammps.dump.write.dump:predict_dump",
    elements="",
    reports_losses_itself=True,
    write_options=DumpTarget,
    unit_styles=UNITS_STYLES,
    unconverted=("meta",),
    carries={
        "system": Capability(read="columns that never change", write="columns of atoms, in every frame"),
        "frame": Capability(write="exact, where there is no trajectory"),
        "trajectory": Capability(read="exact", write="exact"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/dump.html",
    many_inputs=True,
)

RUN = Format(
    name="lammps-run",
    title="LAMMPS run (directory, input script, log)",
    patterns=("in.*", "*.in", "log.*", "*.log"),
    sniff=detect.run_score,
    reads="molrec_lammps.run.run:read_run",
    read_options=RunOptions,
    writes="molrec_lammps.write.run:write_run",
    predicts="molrec_lammps.write.run:predict_run",
    elements="",
    reports_losses_itself=True,
    is_own_output="molrec_lammps.write.run:is_written_run",
    write_options=RunTarget,
    unit_styles=UNITS_STYLES,
    unconverted=("forcefield", "meta"),
    carries={
        "system": Capability(read="exact: atoms, relations, types", write="exact"),
        "frame": Capability(read="exact, of a run without a dump", write="exact"),
        "trajectory": Capability(read="exact", write="one state, the last frame where there is no section frame"),
        "forcefield": Capability(
            read="exact, where the commands can be read without running them", write="exact, in the words of LAMMPS"
        ),
        "metrics": Capability(read="thermo output of every step, speed of the runs, fix ave/time"),
        "observables": Capability(read="columns of fix ave/time, ave/chunk, ave/histo, ave/correlate"),
        "method": Capability(read="engine, settings, speed of the runs, the commands as text"),
        "status": Capability(read="how the run ended"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/",
    many_inputs=True,
    combines=("lammps-data", "lammps-dump", "lammps-ave-time"),
)

SETTINGS = Format(
    name="lammps-settings",
    title="LAMMPS force field (commands to include)",
    patterns=("settings.lmp", "*.settings", "*.settings.lmp"),
    writes="molrec_lammps.write.run:write_settings",
    predicts="molrec_lammps.write.run:predict_settings",
    reports_losses_itself=True,
    write_options=SettingsTarget,
    unit_styles=UNITS_STYLES,
    unconverted=("forcefield", "meta"),
    carries={"forcefield": Capability(write="exact, in the words of LAMMPS")},
    extra="lammps",
    reference="https://docs.lammps.org/Commands_all.html",
)

AVE_TIME = Format(
    name="lammps-ave-time",
    title="LAMMPS averages (fix ave/time, ave/chunk, ave/histo, ave/correlate)",
    sniff=detect.ave_score,
    reads="molrec_lammps.log.averages:read_ave_time",
    carries={
        "metrics": Capability(read="exact, of single values"),
        "observables": Capability(read="exact, of columns of rows"),
    },
    extra="lammps",
    reference="https://docs.lammps.org/fix_ave_time.html",
    many_inputs=True,
)


@hookimpl
def molrec_formats() -> tuple[Format, ...]:
    """LAMMPS data files, dumps, runs and averages."""
    return (DATA, DUMP, RUN, SETTINGS, AVE_TIME)


@hookimpl
def molrec_units_converted(record: Record, source: Record, conversion: UnitConversion, report: Report) -> None:
    """Convert what a data file and a script said beyond columns, or state its units."""
    from molrec_lammps.write.units import follow_units

    follow_units(record, source, conversion, report)


@hookimpl
def molrec_style_dimension(category: str, style: str, name: str, definitions: int) -> str | None:
    """Of LAMMPS' styles that are not in the registry, by the table of styles."""
    from molrec_lammps.potential.style_maps import dimension_of_parameter

    return dimension_of_parameter(category, style, name, definitions)
