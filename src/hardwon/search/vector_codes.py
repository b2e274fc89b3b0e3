"""Which of many vectors are near to one, without reading them: a bit per dimension is kept in memory.

Bits that differ are counted for every document of the scope. The nearest by that are weighed by how far the question
goes in each dimension, and of these only the nearest are compared exactly by whoever asks. What was loaded stays for
as long as the process lives; what came or went meanwhile is noticed by how many vectors of a project went and by the
last number that was given to one.
"""

from __future__ import annotations

from threading import Lock
from typing import TYPE_CHECKING

from hardwon.store import search
from hardwon.store.db import Connection
from hardwon.types import frozen

if TYPE_CHECKING:
    import numpy

OVERSAMPLING_FACTOR = (
    8  # times as many as are wanted are weighed: of the ten truly nearest 84 of 100 are found so, and 65 without
)


@frozen
class _Held:
    """A project's vectors: their mark, their numbers, their documents, and their codes, 64 dimensions a row."""

    mark: tuple[int, int]
    numbers: numpy.ndarray
    documents: numpy.ndarray
    codes: numpy.ndarray


_lock = Lock()
_homes: dict[tuple[str, str], dict[int, _Held]] = {}


def find_nearest(
    connection: Connection, home: str, model: str, projects: list[int], vector: numpy.ndarray, limit: int
) -> list[int]:
    """The documents of these projects whose vectors are likely the nearest."""
    import numpy

    asked = pack_bits(vector[None, :])[0]
    found, nearness = [], []
    for project in projects:
        held = _load(connection, home, model, project)
        if not len(held.documents):
            continue
        apart = numpy.zeros(len(held.documents), numpy.uint16)
        for part, sign in zip(held.codes, asked, strict=True):
            numpy.add(apart, numpy.bitwise_count(part ^ sign), out=apart)
        reached = numpy.cumsum(numpy.bincount(apart))
        best = numpy.flatnonzero(apart <= numpy.searchsorted(reached, OVERSAMPLING_FACTOR * limit))[
            -2 * OVERSAMPLING_FACTOR * limit :
        ]
        signs = numpy.unpackbits(held.codes[:, best].T.copy().view(numpy.uint8), axis=1)[:, : len(vector)]
        found.append(held.documents[best])
        nearness.append(signs @ vector)
    if not found:
        return []
    order = numpy.argsort(-numpy.concatenate(nearness), kind="stable")[:limit]
    return [int(one) for one in numpy.concatenate(found)[order]]


def pack_bits(vectors: numpy.ndarray) -> numpy.ndarray:
    """A bit per dimension, 64 in a number."""
    import numpy

    bits = numpy.packbits(vectors > 0, axis=1)
    return numpy.pad(bits, ((0, 0), (0, -bits.shape[1] % 8))).view(numpy.uint64)


def _load(connection: Connection, home: str, model: str, project: int) -> _Held:
    """A project's vectors as they are now."""
    with _lock:
        projects = _homes.setdefault((home, model), {})
        mark, held = search.read_vectors_version(connection, project), projects.get(project)
        if held is None or held.mark != mark:
            held = projects[project] = _brought_up(connection, model, project, mark, held)
        return held


def _brought_up(connection: Connection, model: str, project: int, mark: tuple[int, int], held: _Held | None) -> _Held:
    """What is held with what came since, and without what went."""
    import numpy

    went, newest = mark
    last = held.mark[1] if held and held.mark[1] <= newest else 0  # numbers begin anew in a database that was restored
    numbers, documents = ([held.numbers], [held.documents]) if held and last else ([], [])
    codes = [held.codes] if held and last and len(held.numbers) else []
    for rows in search.iter_codes(connection, project, model, after_id=last, last_id=newest):
        numbers.append(numpy.array([number for number, _, _ in rows], numpy.int64))
        documents.append(numpy.array([document for _, document, _ in rows], numpy.int64))
        flat = numpy.frombuffer(b"".join(code for _, _, code in rows), numpy.uint64)
        codes.append(flat.reshape(len(rows), -1).T)
    if not codes:
        return _Held(mark, numpy.empty(0, numpy.int64), numpy.empty(0, numpy.int64), numpy.empty((0, 0), numpy.uint64))
    found = _Held(mark, numpy.concatenate(numbers), numpy.concatenate(documents), numpy.concatenate(codes, axis=1))
    if held is None or not last or held.mark[0] == went:
        return found
    there = numpy.isin(found.numbers, numpy.array(search.list_vector_numbers(connection, project), numpy.int64))
    return _Held(mark, found.numbers[there], found.documents[there], found.codes[:, there])
