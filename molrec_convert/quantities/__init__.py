"""What numbers mean: units, dimensions, the standard quantities, elements, tensors. All readers and writers ask here.

Nothing here knows a record; `molrec_convert.meaning` applies it to one.
"""
