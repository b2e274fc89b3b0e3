"""Which lessons a call would meet, and why not the others. Nothing is delivered and nothing is claimed by asking."""

from __future__ import annotations

from hardwon import projects, settings
from hardwon.lessons import manifest
from hardwon.lessons.matching import match, see, why_not
from hardwon.lessons.pattern_search import Patterns
from hardwon.types import Event, Match

Others = list[tuple[str, str]]


def judged(home: str, event: Event, now: float) -> tuple[list[Match], Others]:
    """The lessons that would fire on a call, and the slugs of the others with what keeps each from it."""
    index = manifest.ensure(home, now)
    sight = see(event, root=projects.root(event.cwd), places=projects.places(event.cwd))
    search = Patterns().search
    fire: list[Match] = []
    others: Others = []
    for entry in map(index.entry, range(len(index))):
        found = match(entry, sight, search) if entry.delivery != "start" else None
        if found:
            fire.append(found)
        else:
            others.append((entry.slug, why_not(entry, sight, search)))
    return fire, others


def left_out(home: str) -> Others:
    """The slugs of the lessons that are not in force, each with the reason."""
    values = settings.resolve(settings.read_config(home))
    lessons, _, waiting = manifest.gather(home)
    _, reasons = manifest.choose(lessons, values, waiting)
    return [(slug, f"is not in the manifest: {reason}") for slug, reason in reasons]
