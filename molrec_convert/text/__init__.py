"""Text: rows of numbers and words to columns and back, many texts as one, lines, compression.

The only place where text becomes numbers is `rows`; `output` is the way back. Both run in the native kernel
(`molrec_convert._kernel`), or in plain Python where it was not built.
"""
