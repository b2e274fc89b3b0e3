"""rebuild"""

from __future__ import annotations

import json
from contextlib import closing

import click

from hardwon import clock, paths, settings
from hardwon.actions import approvals
from hardwon.cli.data import hold_worker_stopped
from hardwon.cli.sessions import open_drained_store
from hardwon.data import exports
from hardwon.lessons import compiled_brief
from hardwon.search import brief
from hardwon.store import jobs, turns
from hardwon.worker import job_process


@click.command()
@click.option("--json", "as_json", is_flag=True, help="print JSON")
def rebuild(as_json: bool) -> None:
    """Make everything derived anew from the sessions and files that are kept.

    That is the search index, its vectors, what plain code observed and summed up, the briefs and the manifest. No
    model is asked; what one said before stays.
    """
    home = paths.get_home()
    values = settings.resolve_settings(settings.read_config(home))
    with hold_worker_stopped(home), closing(open_drained_store(home)) as connection:
        sessions = turns.forget_derived(connection, clock.now())
        compiled_brief.delete_all(home)
        is_finished = False
        while not is_finished:
            is_indexed = job_process.run_due_jobs(home, connection, jobs.DISTIL, values)
            next_due = jobs.find_next_due(connection, (jobs.DISTIL,))
            is_finished = is_indexed and (next_due is None or next_due > clock.now())
        projects = exports.list_project_paths(connection)
        for project in projects:
            brief.compile_brief(connection, home, project, values)
        approvals.compile_manifest(home, clock.now())
        counts = turns.count_derived(connection)
        unrebuildable = turns.count_unrebuildable(connection)
    if as_json:
        click.echo(json.dumps({"sessions": sessions, "briefs": len(projects), **counts, "kept": unrebuildable}))
        return
    summary = ", ".join(f"{count} {name}" for name, count in counts.items())
    click.echo(f"rebuilt   from {sessions} sessions: {summary}")
    click.echo(f"          {len(projects)} briefs and the manifest")
    if unrebuildable:
        click.echo(f"kept      what {unrebuildable} turns came to: their events are gone")
