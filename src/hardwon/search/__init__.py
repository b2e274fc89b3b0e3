"""Search over what was recorded: index, ranking, embeddings, timeline and brief."""

import os

# NumPy's OpenBLAS starts a thread per core when it is imported, a quarter of the CPU time of `hardwon search`. The
# products here are too small to gain from them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
