"""ASE: databases, trajectories and `Atoms` to and from MolRec records, and MolRec inside ASE."""
