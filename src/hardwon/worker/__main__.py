"""`python -m hardwon.worker`: the worker of the home that HARDWON_HOME names."""

import sys

from hardwon import paths
from hardwon.worker.loop import main

sys.exit(main(paths.home()))
