"""`python -m hardwon.worker`: the worker of the home that HARDWON_HOME names."""

import sys

from hardwon import paths
from hardwon.worker.hook_server import main

sys.exit(main(paths.get_home()))
