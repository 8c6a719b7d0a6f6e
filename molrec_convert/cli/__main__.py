"""`python -m molrec_convert.cli`."""

from molrec_convert.cli import main

main()
