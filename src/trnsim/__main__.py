"""`python -m trnsim` is the command `trnsim`."""

from trnsim.cli import main

main()
