"""Run the command line with `python -m hardwon`."""

from hardwon.cli import main

main()
