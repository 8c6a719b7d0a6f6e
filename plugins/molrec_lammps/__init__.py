"""LAMMPS data files, dumps and runs as MolRec records."""
