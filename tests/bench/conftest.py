"""The benchmarks are scripts, not a package: their folder is put on the path for the tests of their bookkeeping."""

from __future__ import annotations

import os
import sys

sys.path.append(os.path.join(os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))), "bench"))
