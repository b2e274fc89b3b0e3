"""The page of something that the team shares and that waits for a decision here.

A decision is written to this machine's log; the worker exchanges it with the server within a minute.
"""

from __future__ import annotations

from hardwon.actions import team_decisions
from hardwon.actions.team_decisions import Arrival, Team
from hardwon.errors import UserError
from hardwon.lessons.replay import describe_replay
from hardwon.store.approvals import VIEWER
from hardwon.web.inbox import find_next_path, find_place
from hardwon.web.page_request import PageContent, PageNotFound, PageRequest, Redirect


def show_version(request: PageRequest) -> PageContent:
    """Show a proposal for the team, or what the team approved and this machine has not taken over yet."""
    _, arrival = _find_waiting(request)
    path = f"/team/{arrival.version.hash}"
    values = {
        "title": arrival.title[:100],
        "arrival": arrival,
        "path": path,
        "place": find_place(request, path),
        "fields": team_decisions.describe_arrival(arrival),
        "replay": describe_replay(arrival.replay) if arrival.replay else "",
    }
    return PageContent("team.html", values)


def accept(request: PageRequest) -> Redirect:
    """Approve a proposal for the team, or put what the team approved in force here."""
    team, arrival = _find_waiting(request)
    location = find_next_path(request, f"/team/{arrival.version.hash}")
    if not arrival.is_approved:
        team_decisions.approve_version(team, arrival.subject, arrival.version.hash)
        return Redirect(f"/team/{arrival.version.hash}", f"Approved for the team: {arrival.title}")
    return Redirect(location, team_decisions.accept_arrival(team, arrival, VIEWER))


def reject(request: PageRequest) -> Redirect:
    """Do not use here what the team approved; a proposal can only be decided for the whole team."""
    team, arrival = _find_waiting(request)
    if not arrival.is_approved:
        raise UserError("a proposal waits until a reviewer approves or retires it")
    location = find_next_path(request, f"/team/{arrival.version.hash}")
    team_decisions.reject_arrival(team, arrival)
    return Redirect(location, f"Rejected here: {arrival.title}")


def _find_waiting(request: PageRequest) -> tuple[Team, Arrival]:
    """Return what waits under the hash in the path, which names exactly what the person saw."""
    team = team_decisions.open_team(request.home, request.connection)
    if team is None:
        raise PageNotFound
    for arrival in team_decisions.list_waiting(team):
        if arrival.version.hash == request.path_params["version"]:
            return team, team_decisions.replay_arrival(team, arrival)
    raise PageNotFound
