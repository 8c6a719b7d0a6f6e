"""MDAnalysis: what it opens to MolRec records and back, and records at home inside it.

    import MDAnalysis, molrec_mdanalysis

    universe = MDAnalysis.Universe("run.mrec")
    universe.select_atoms("resname SOL").write("water.mrec", frames="all")

Importing this package registers the readers, the parser and the writer of `.mrec` and `.mrec.zip`.
"""

from __future__ import annotations

import MDAnalysis

from molrec_mdanalysis.reader import MrecParser, MrecReader, is_topology_alone
from molrec_mdanalysis.writer import MrecWriter

__all__ = ["MrecParser", "MrecReader", "MrecWriter"]

# a hint without a reader: MDAnalysis then looks for no coordinates in a record that has none, as in a PSF file
MDAnalysis._READER_HINTS["MREC: no frames"] = is_topology_alone
