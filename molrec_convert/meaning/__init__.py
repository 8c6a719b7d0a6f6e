"""What the numbers of a record mean: in other units, quantities by name, elements of atom types.

`molrec_convert.quantities` knows units, dimensions and names; here they are applied to records and collections.
"""
