"""Names of the commands of LAMMPS input scripts, by what a run's record needs of them.

Source: the LAMMPS manual, "General commands"; checked against the command styles of the 22 Jul 2025 release.
"""

from __future__ import annotations

__all__ = ["COEFFICIENTS", "COMMANDS", "FLOW", "OPAQUE", "TELLING", "UNDERSTOOD", "VARIABLE_STYLES"]


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


#: Commands that change which command comes next.
FLOW = _names("if jump label next partition quit")

#: Commands whose effect only LAMMPS, or another program, can tell.
OPAQUE = _names("geturl info message plugin python shell")

#: Commands that hold force-field parameters; their text is kept, their numbers are not read.
COEFFICIENTS = _names("""
    angle_coeff angle_style bond_coeff bond_style dielectric dihedral_coeff dihedral_style improper_coeff
    improper_style kspace_modify kspace_style pair_coeff pair_modify pair_style special_bonds
    """)

#: Commands a run's record is made of.
UNDERSTOOD = _names("""
    atom_style boundary clear dimension dump dump_modify echo fix include labelmap log mass minimize newton read_data
    read_restart replicate rerun reset_timestep run thermo thermo_modify thermo_style timestep undump unfix units
    variable write_data
    """)

#: Commands that hardly any other kind of text begins a line with.
TELLING = _names("""
    angle_coeff angle_style atom_modify atom_style bond_coeff bond_style create_atoms create_box dihedral_coeff
    dihedral_style dump_modify improper_coeff improper_style kspace_style lattice neigh_modify pair_coeff pair_modify
    pair_style read_data read_restart reset_timestep run_style special_bonds thermo_modify thermo_style timestep
    undump unfix
    """)

#: Styles of `variable`.
VARIABLE_STYLES = _names("""
    delete index loop world universe uloop string format getenv file atomfile python timer internal equal vector atom
    """)

#: All commands.
COMMANDS = (
    FLOW
    | OPAQUE
    | COEFFICIENTS
    | UNDERSTOOD
    | TELLING
    | _names("""
        angle_write balance bond_write box change_box comm_modify comm_style compute compute_modify create_bonds
        delete_atoms delete_bonds dihedral_write displace_atoms dynamical_matrix fitpod fix_modify group group2ndx
        hyper kim kim_init kim_interactions kim_param kim_property kim_query lattice mdi min_modify min_style molecule
        ndx2group neb neb/spin neighbor package pair_write prd print processors read_dump region region2vmd
        reset_atom_ids reset_atoms reset_ids reset_mol_ids restart server set suffix tad temper temper/grem temper/npt
        third_order timer timers uncompute velocity write_coeff write_dump write_restart
        """)
)
