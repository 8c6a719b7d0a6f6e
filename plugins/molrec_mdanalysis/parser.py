"""The topology parser of `.mrec` and `.mrec.zip` in MDAnalysis."""

from __future__ import annotations

from typing import Any

from MDAnalysis.core.topology import Topology
from MDAnalysis.topology.base import TopologyReaderBase

from molrec_convert.model import Record
from molrec_mdanalysis.building import topology_of
from molrec_mdanalysis.paths import is_packed, open_record
from molrec_mdanalysis.units import in_own_units

__all__ = ["MrecParser"]


class MrecParser(TopologyReaderBase):  # type: ignore[misc]
    """Atoms, residues, segments and connections of a record: `MDAnalysis.Universe("run.mrec")` finds it."""

    format = "MREC"

    @staticmethod
    def _format_hint(thing: Any) -> bool:
        return is_packed(thing)

    def __init__(self, filename: Any) -> None:
        super().__init__(filename)

    def parse(self, convert_units: bool = True, **_: Any) -> Topology:
        """The topology of the record."""
        if isinstance(self.filename, Record):
            return topology_of(in_own_units(self.filename) if convert_units else self.filename)
        with open_record(self.filename) as record:
            return topology_of(in_own_units(record) if convert_units else record)
