"""What numbers mean: units, dimensions, the standard quantities, elements, tensors. All readers and writers ask here.

Nothing here knows a record; `molrec_convert.record_units` and `molrec_convert.record_quantities` apply it to one.
"""
