from __future__ import annotations

import os
from collections.abc import Iterator

import pytest

from tests.support.library import Library


@pytest.fixture
def library(own_home: str) -> Iterator[Library]:
    filled_library = Library(os.path.join(own_home, ".hardwon"))
    yield filled_library
    filled_library.connection.close()
