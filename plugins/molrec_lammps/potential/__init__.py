"""Potentials and force-field styles, between LAMMPS and the record."""
