"""What the formats of LAMMPS share: atom styles, types, units, boxes."""
