"""PDB and mmCIF files.

What goes where, of a PDB file (columns counted from 1):

- `system/atoms`: `id` (serial, 7-11), `name` (13-16), `altloc` (17), `res_name` (18-21), `chain` (22), `res_id`
  (23-26), `icode` (27), `segid` (73-76), `element` (77-78, or inferred), `formal_charge` (79-80), `hetatm` (the record
  is HETATM), `ter` (a TER stands behind the atom). `altloc`, `chain`, `icode`, `segid` are there where a row has one.
  `res_seq` is the number as the file has it, where `res_id` had to be another one; `element_text` is what stands in
  columns 77-78 where that is no element. What is unknown is null.
- `system/bonds`: `atomi`, `atomj` (rows of atoms), `kind` (`conect`, `disulfide`, `metal`, `link`, or two joined by
  `+`), `bond_type` where CONECT repeats partners.
- `trajectory/atoms`: `x y z` (31-54), `occupancy` (55-60), `b_factor` (61-66), `anisou` (U11 U22 U33 U12 U13 U23 in
  square angstroms), and `id` where models number their atoms differently.
- `trajectory/box`: CRYST1; `trajectory/meta/model`: the numbers of MODEL records.
- `system` meta: `units`, and `pdb`, a document with every other line of the file, the symmetry and what the header
  says.

Of an mmCIF file the same columns hold `_atom_site`, beside `label_asym_id`, `label_seq_id`, `label_entity_id`,
`label_atom_id` and `label_comp_id`; `_struct_conn` is in `bonds`, and `system` meta `mmcif` holds the other categories.

Source: Protein Data Bank Contents Guide, version 3.3; PDBx/mmCIF dictionary.
"""
