"""Files of MDAnalysisTests that MDAnalysis 2.11 opens, alone, in pairs and in chains; and those it does not open.

All files of `MDAnalysisTests.datafiles` are here. Pairs and chains are those of MDAnalysis' own tests, and a topology
for each trajectory they leave over.
"""

from __future__ import annotations

from typing import Any

__all__ = ["CANNOT", "LONG", "OTHERS", "PAIRS"]

_DUMP = {"topology_format": "LAMMPSDUMP", "format": "LAMMPSDUMP"}
_CONFIG = {"topology_format": "CONFIG", "format": "CONFIG"}
_COLUMNS = "LAMMPSdata_additional_columns+LAMMPSDUMP_additional_columns"
_HISTORY = {"topology_format": "HISTORY", "format": "HISTORY"}

#: Opened by their names alone: one file, or a topology and trajectories.
_PLAIN = """
    PDB_small+NAMDBIN CRD PSF+CRD LAMMPScnt LAMMPSdata_mini LAMMPShyd COORDINATES_TOPOLOGY+COORDINATES_DCD
    PDB_small+DCD PSF+DCD PSF+DCD2 PSF_NAMD_TRICLINIC+DCD_NAMD_TRICLINIC PSF_TRICLINIC+DCD_TRICLINIC
    waterPSF+waterDCD DMS GMS_ASYMOPT COORDINATES_GRO GRO_velocity two_water_gro_multiframe GSD GSD_bonds
    COORDINATES_TOPOLOGY+COORDINATES_H5MD TPR_xvf+H5MD_xvf FHIAIMS INPCRD XYZ_five+INPCRD MMTF mol2_molecule
    mol2_molecules CPPTRAJ_TRAJ_TOP+CPPTRAJ_TRAJ PFncdf_Top+PFncdf_Trj PRM7+NCDFtruncoct PRM_NCBOX+TRJ_NCBOX
    PRMncdf+NCDF CONECT PDB_charges PDB_full PDB_icodes PDB_multiframe PDB_varying fullerene
    ALIGN_UNBOUND+ALIGN_BOUND PSF+PDB_small PSF_NAMD+PDB_NAMD RNA_PSF+RNA_PDB PDBQT_input PQR PQR_icodes
    COORDINATES_TOPOLOGY+COORDINATES_TNG TRC_PDB_SOLV+TRC_TRAJ_SOLV TRC_PDB_SOLV+TRC_TRICLINIC_SOLV
    TRC_PDB_VAC+TRC_TRAJ1_VAC PRM+TRJ PRM+TRJ_bz2 COORDINATES_TOPOLOGY+COORDINATES_TRR
    COORDINATES_XYZ+COORDINATES_TRR PDB_xvf+TRR_xvf SURFACE_PDB+SURFACE_TRR TPR_xvf+TRR_xvf ARC ARC_PBC TXYZ
    AUX_EDR_TPR+AUX_EDR_XTC COORDINATES_TOPOLOGY+COORDINATES_XTC GRO+XTC GRO_MEMPROT+XTC_MEMPROT
    RANDOM_WALK_TOPO+RANDOM_WALK COORDINATES_XYZ XYZ_mini COORDINATES_XYZ+COORDINATES_XYZ_BZ2 XYZ_psf+XYZ PDB_helix
    ALIGN_BOUND ALIGN_UNBOUND PSF mol2_comments_header DCD_TRICLINIC PDB_janin PDB_small XYZ Martini_membrane_gro
    two_water_gro PDB_closed COORDINATES_GRO_INCOMPLETE_VELOCITY COORDINATES_GRO_BZ2 GRO_huge_box mol2_crysin
    mol2_ligand mol2_sodium_ion mol2_zinc CPPTRAJ_TRAJ_TOP+CPPTRAJ_TRAJ+CPPTRAJ_TRAJ PDB_CRYOEM_BOX ENT PDB_HOLE
    INC_PDB PDB_xlserial ALIGN CONECT_ERROR PDBQT_querypdb WIN_PDB_multiframe WIN_ARC PDB_sub_dry PDB_multipole
    PDB_elements NUCLsel waterPSF two_water_gro_nonames TRIC Make_Whole ITP_atomtypes ITP_nomass MMTF_gz
    PDB_chainidnewres PDBQT_tyrosol PSF_nosegid PSF_inscode TPR_linear_angle merge_protein merge_ligand merge_water
    capping_input capping_output capping_ace capping_nma PDB_small+PDB_small+PDB_small COORDINATES_DCD
    COORDINATES_H5MD COORDINATES_TNG COORDINATES_TOPOLOGY COORDINATES_TRR COORDINATES_XTC COORDINATES_XYZ_BZ2
    CPPTRAJ_TRAJ CPPTRAJ_TRAJ_TOP DCD DCD2 DCD_NAMD_GBIS DCD_NAMD_TRICLINIC DMS_DOMAINS DMS_NO_SEGID GMS_ASYMSURF
    GMS_SYMOPT GRO_incomplete_vels GRO_residwrap GRO_residwrap_0base GRO_sameresid_diffresname GSD_long HoomdXMLdata
    ITP ITP_charges ITP_edited ITP_spce ITP_tip5p LAMMPS_chain LAMMPS_image_vf LAMMPSdata_PairIJ
    LAMMPSdata_additional_columns LAMMPSdata_deletedatoms LAMMPSdata_many_bonds MMTF_NOCRYST MMTF_skinny
    MMTF_skinny2 MULTIPDB_HOLE NAMDBIN NCDF NCDFtruncoct PDB_NAMD PDB_chainidrepeat PDB_cm PDB_cm_bz2 PDB_cm_gz
    PDB_conect PDB_conect2TER PDB_mc PDB_mc_bz2 PDB_mc_gz PDB_sameresid_diffresname PDB_singleconect PDB_xsmall
    PFncdf_Top PFncdf_Trj PRM PRM19SBOPC PRM7 PRM7_ala2 PRMErr5 PRMNCRST PRMNEGATIVE PRM_NCBOX PRM_chainid_bz2 PRMcs
    PRMncdf PRMpbc PSF_NAMD PSF_NAMD_GBIS PSF_NAMD_TRICLINIC PSF_TRICLINIC PSF_cmap PSF_notop RANDOM_WALK
    RANDOM_WALK_TOPO SURFACE_PDB SURFACE_TRR TNG_traj_gro TPR2016_bonded TPR2018_bonded TPR2019B3_bonded
    TPR2020_bonded TPR2020_double_bonded TPR2021_bonded TPR2021_double_bonded TPR2022RC1_bonded TPR2023_bonded
    TPR2024_4_bonded TPR2024_bonded TPR2025_0_bonded TPR2026_0_bonded TPR_EXTRA_2016 TPR_EXTRA_2018 TPR_EXTRA_2020
    TPR_EXTRA_2021 TPR_EXTRA_2022RC1 TPR_EXTRA_2023 TPR_EXTRA_2024 TPR_EXTRA_2024_4 TPR_EXTRA_2025_0
    TPR_EXTRA_2026_0 TPR_EXTRA_407 TPR_NNPOT_2025_0 TPR_NNPOT_2026_0 TPR_gh_5145 TRC_PDB_SOLV TRC_PDB_VAC TRJ_NCBOX
    TRR_multi_frame XPDB_small XTC_multi_frame XYZ_bz2 XYZ_five XYZ_psf two_water_gro_widebox unordered_res waterDCD
    PSF_NAMD_GBIS+DCD_NAMD_GBIS PRM+WIN_TRJ XYZ_psf+XYZ_bz2 TRC_PDB_VAC+TRC_TRAJ1_VAC_WHITESPACE
    TRC_PDB_VAC+TRC_TRAJ2_VAC PSF_notop+DCD PSF+PDB_closed PSF+DMS PSF+PQR PSF+NAMDBIN PRMncdf+TRJncdf
"""
#: Those that take long, or are another of many of a kind.
_PLAIN_LONG = """
    LAMMPSdata GRO GRO_large TPR+GRO TNG_traj_gro+TNG_traj TNG_traj_gro+TNG_traj_vels_forces
    TPR TPR2020+TPR2024_4 PRM12+TRJ12_bz2 PRMpbc+TRJpbc_bz2 GRO+TRR TPR+TRR TRZ_psf+TRZ PDB+XTC
    PDB_sub_sol+XTC_sub_sol TPR+XTC XTC contacts_villin_folded contacts_villin_unfolded PDB_rama Plength GRO+XTC+XTC
    PSF+DCD+CRD+DCD+CRD+DCD+CRD+CRD PSF+DCD+CRD+DCD PDB GRO_MEMPROT RNA_PSF PDB_CHECK_RIGHTHAND_PA PSF+DCD+DCD
    PDB_xvf AUX_EDR_TPR AUX_EDR_XTC H5MD_xvf LAMMPSdata2 PDB_sub_sol PRM12 RNA_PDB TNG_traj
    TNG_traj_vels_forces TPR2016 TPR2018 TPR2019B3 TPR2020 TPR2020Double TPR2021 TPR2021Double TPR2022RC1 TPR2023
    TPR2024 TPR2024_4 TPR2025_0 TPR2026_0 TPR400 TPR402 TPR403 TPR404 TPR405 TPR406 TPR407 TPR450 TPR451 TPR452
    TPR453 TPR454 TPR455 TPR455Double TPR460 TPR461 TPR502 TPR504 TPR505 TPR510 TPR510_bonded TPR_xvf TPR_xvf_2024_4
    TRR TRR_sub_sol TRR_xvf TRZ_psf XTC_MEMPROT XTC_sub_sol TPR_xvf_2024_4+TRR_xvf TPR_xvf+XTC_sub_sol
    PDB_sub_sol+TRR_sub_sol TPR2020+TPR2016 PDB+TRR
"""
#: Opened with keywords.
_TOLD: list[tuple[str, dict[str, Any], bool]] = [
    ("GMX_TOP", {"topology_format": "ITP", "include_dir": "@GMX_DIR"}, False),  # @: the file of that name
    ("DLP_CONFIG", _CONFIG, False),
    ("LAMMPSdata_triclinic", {"atom_style": "id type x y z", "format": "DATA", "topology_format": "DATA"}, False),
    ("LAMMPSDUMP", _DUMP, False),
    ("LAMMPSDUMP_allcoords", _DUMP, True),
    ("LAMMPSDUMP_long", _DUMP, False),
    ("LAMMPSDUMP_non_linear", _DUMP, False),
    ("LAMMPSDUMP_triclinic", _DUMP, False),
    ("LAMMPS_image_vf+LAMMPSDUMP_image_vf", {"topology_format": "DATA", "format": "LAMMPSDUMP"}, False),
    ("TRC_PDB_VAC+TRC_CLUSTER_VAC", {"format": "TRC"}, False),
    ("LAMMPSDUMP_non_linear", {"format": "LAMMPSDUMP"}, False),
    ("XYZ_five+INPCRD", {"format": "RESTRT"}, False),
    (
        "LAMMPS_chain+LAMMPSDUMP_chain1+LAMMPSDUMP_chain2",
        {"continuous": True, "topology_format": "DATA", "format": "LAMMPSDUMP"},
        False,
    ),
    ("GRO+PDB+PDB+PDB", {"format": "pdb"}, True),
    (
        "LAMMPS_image_vf+LAMMPSDUMP_image_vf",
        {"topology_format": "DATA", "format": "LAMMPSDUMP", "unwrap_images": True},
        False,
    ),
    ("LAMMPSDUMP", {"format": "LAMMPSDUMP"}, False),
    ("LAMMPSDUMP_triclinic", {"format": "LAMMPSDUMP", "lammps_coordinate_convention": "auto"}, True),
    ("LAMMPSdata_triclinic", {"atom_style": "id type x y z", "format": "data"}, False),
    ("DLP_CONFIG", {"format": "CONFIG"}, False),
    ("PDB_small", {"format": "XPDB", "topology_format": "XPDB"}, False),
    ("XPDB_small", {"topology_format": "XPDB"}, False),
    ("TRC_PDB_VAC+TRC_TRAJ1_VAC+TRC_TRAJ2_VAC", {"continuous": True}, False),
    ("TRC_PDB_VAC+TRC_TRAJ1_VAC_WHITESPACE+TRC_TRAJ2_VAC", {"continuous": True}, False),
    ("WIN_LAMMPSDUMP", {"format": "LAMMPSDUMP"}, False),
    ("LAMMPSdata_many_bonds", {"format": "DATA"}, False),
    ("GRO+TRR", {"all_coordinates": True}, True),
    ("ITP_tip5p", {"infer_system": True}, False),
    ("PDB_elements", {"format": "PDB"}, False),
    ("PDB", {"format": "PDB"}, True),
    ("TXYZ", {"format": "TXYZ"}, False),
    ("DLP_CONFIG_minimal", _CONFIG, False),
    ("DLP_CONFIG_order", _CONFIG, False),
    ("DLP_HISTORY", _HISTORY, False),
    ("DLP_HISTORY_classic", _HISTORY, False),
    ("DLP_HISTORY_minimal", _HISTORY, False),
    ("DLP_HISTORY_minimal_cell", _HISTORY, False),
    ("DLP_HISTORY_order", _HISTORY, False),
    ("LAMMPSDUMP_additional_columns", _DUMP, False),
    ("LAMMPSDUMP_allinfo", _DUMP, False),
    ("LAMMPSDUMP_chain1", _DUMP, False),
    ("LAMMPSDUMP_chain2", _DUMP, False),
    ("LAMMPSDUMP_nomass_elemx", _DUMP, False),
    ("WIN_DLP_HISTORY", _HISTORY, False),
    ("WIN_LAMMPSDUMP", _DUMP, False),
    ("XPDB_small", {"format": "XPDB", "topology_format": "XPDB"}, False),
    ("LAMMPScnt2", {"format": "DATA", "topology_format": "DATA"}, False),
    ("LAMMPShyd2", {"format": "DATA", "topology_format": "DATA"}, False),
    ("LAMMPS_chain+LAMMPSDUMP_chain1", {"topology_format": "DATA", "format": "LAMMPSDUMP"}, False),
    ("PRM7_ala2+RST7_ala2", {"format": "RESTRT"}, False),
    ("TRZ", {"n_atoms": 8184}, True),
    (
        "LAMMPSdata_additional_columns+LAMMPSDUMP_additional_columns",
        {"additional_columns": True, "topology_format": "DATA", "format": "LAMMPSDUMP"},
        False,
    ),
    (
        "LAMMPSdata_additional_columns+LAMMPSDUMP_additional_columns",
        {"additional_columns": ["q", "p"], "topology_format": "DATA", "format": "LAMMPSDUMP"},
        False,
    ),
    ("LAMMPSDUMP_allcoords", {**_DUMP, "lammps_coordinate_convention": "scaled"}, True),
    ("LAMMPSDUMP_allcoords", {**_DUMP, "lammps_coordinate_convention": "unscaled"}, True),
    ("LAMMPSDUMP_allcoords", {**_DUMP, "lammps_coordinate_convention": "scaled_unwrapped"}, True),
    ("LAMMPSDUMP_allcoords", {**_DUMP, "lammps_coordinate_convention": "unwrapped"}, True),
    ("LAMMPSdata2+LAMMPSdcd2", {"format": "LAMMPS", "topology_format": "DATA"}, False),
]

#: Files and pairs MDAnalysis does not open, or fails to read to the end; the reason is what it says.
CANNOT: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    (("PDB", "PDB", "GRO"), {"format": "gro"}),
    (("PDB", "XTC", "TRR"), {"continuous": True}),
    (("PSF", "DCD", "DCD"), {"continuous": True}),
    (("PDB", "PDB", "XTC"), {"continuous": True}),
    (("PSF", "DCD_empty"), {}),
    (("LAMMPSDUMP_allcoords",), {"format": "LAMMPSDUMP", "unwrap_images": True}),
    (("LAMMPSDUMP_nocoords",), {"format": "LAMMPSDUMP", "lammps_coordinate_convention": "auto"}),
    (("mol2_broken_molecule",), {}),
    (("TNG_traj_gro", "TNG_traj_uneven_blocks"), {}),
    (("TPR2024_4_bonded", "INPCRD"), {"format": "TPR"}),
    (("TPR2020", "TPR2020B2"), {}),
    (("TRC_PDB_VAC", "TRC_TRUNCOCT_VAC"), {}),
    (("TRC_PDB_VAC", "TRC_GENBOX_ORIGIN"), {}),
    (("TRC_PDB_VAC", "TRC_GENBOX_EULER"), {}),
    (("TRC_PDB_VAC", "TRC_EMPTY"), {}),
    (("TRC_PDB_VAC", "TRC_TRAJ1_VAC_MISSING_POS"), {}),
    (("TRC_PDB_VAC", "TRC_TRAJ1_VAC_EXTRA_POS"), {}),
    (("TRZ",), {"n_atoms": 8080}),
    (("PSF_BAD", "DCD"), {}),
    (("DLP_CONFIG",), {"topology_format": "HISTORY"}),
    (("PRMErr3",), {}),
    (("PRM7_ala2", "RST7_ala2"), {}),
    (("LAMMPSdata", "trz4data"), {}),
    (("H5MD_energy",), {}),
    (("PDBX",), {"format": "PDB", "topology_format": "PDB"}),
    (("GMX_TOP_BAD",), {}),
    (("GRO_empty_atom",), {}),
    (("GRO_missing_atomname",), {}),
    (("H5MD_malformed",), {}),
    (("ITP_no_endif",), {}),
    (("PRMErr1",), {}),
    (("PRMErr2",), {}),
    (("PRMErr4",), {}),
    (("PRM_UreyBradley",), {}),
    (("SDF_molecule",), {}),
    (("TPR2020B2_bonded",), {}),
    (("TPR334_bonded",), {}),
    (("FASTA",), {}),
]

#: Files that are neither topologies nor trajectories: auxiliary data, and results that tests compare with.
OTHERS = """
    AUX_EDR AUX_EDR_RAW AUX_EDR_SINGLE_FRAME AUX_XVG AUX_XVG_HIGHF AUX_XVG_LOWF XVG_BAD_NCOL XVG_BZ2
    BATArray DihedralArray DihedralsArray GLYRamaArray JaninArray LYSJaninArray RamaArray rmsfArray contacts_file
    HELANAL_BENDING_MATRIX HELANAL_BENDING_MATRIX_SUBSET
    legacy_DCD_ADK_coords legacy_DCD_NAMD_coords legacy_DCD_c36_coords
"""

#: What opens: names of the files, keywords of the universe.
PAIRS: list[tuple[tuple[str, ...], dict[str, Any]]] = [
    *((tuple(names.split("+")), {}) for names in (_PLAIN + _PLAIN_LONG).split()),
    *((tuple(names.split("+")), keywords) for names, keywords, _ in _TOLD),
]
#: Those of them that only the script of the table compares.
LONG = frozenset((*_PLAIN_LONG.split(), *(f"{names} {sorted(keywords)}" for names, keywords, long in _TOLD if long)))
