"""blame"""

from __future__ import annotations

from dataclasses import asdict
from datetime import datetime

import click

from hardwon import paths
from hardwon.cli.context import json_option, open_store
from hardwon.cli.output import echo_field, echo_indented, echo_json, echo_styled, echo_text
from hardwon.efficacy.blame import describe_call, list_told_items
from hardwon.sessions.lookup import find_session
from hardwon.store.efficacy import find_call
from hardwon.text.characters import to_printable_line


@click.command()
@click.argument("name", metavar="SESSION|CALL")
@json_option
def blame(name: str, as_json: bool) -> None:
    """Show what hardwon had told an agent, and who approved it: for "why did it do that?".

    CALL is the id of a call, as E12 in a search or as the agent gave it. What was told before it is listed, with the
    words that it shares with the call. For a SESSION everything is listed.
    """
    with open_store(drain=True) as connection:
        call = find_call(connection, name)
        session = find_session(connection, str(call["session"]) if call else name)
        items = list_told_items(connection, paths.get_home(), session, call)
    if as_json:
        echo_json([asdict(item) for item in items])
        return
    echo_styled(f"session {session['session']} ({session['host']})", bold=True)
    if call:
        echo_text(f"call E{call['id']}: {to_printable_line(describe_call(call), 100)} ({call['outcome']})")
    if not items:
        click.echo("hardwon had told it nothing" + (" before this call" if call else ""))
    for item in items:
        time_text = datetime.fromtimestamp(item.at).strftime("%m-%d %H:%M")
        echo_indented(f"{time_text}  {item.delivery:<6}", f"{to_printable_line(item.text, 160)} [{item.name}]")
        echo_field("from", f"{item.origin}; {item.approval}", indent=13)
        if item.shared_words:
            echo_field("shares", ", ".join(item.shared_words), indent=13)
