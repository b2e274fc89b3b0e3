#!/bin/sh
# Finds the hardwon that is installed here and becomes its hook, or its MCP server. Where it is stands in a file of
# hardwon's home, so that no other process is started on the way. Whatever is missing, no call of an agent is stopped.
#
#   door.sh HOST EVENT    with the payload on stdin
#   door.sh HOST mcp      (Codex fills in no path of a plugin where it starts a server, so .mcp.json has this in short)

host=$1 event=$2 home=${HARDWON_HOME:-$HOME/.hardwon}
# Codex takes Claude Code's plugins as they are, and tells by this that it is another.
if [ "$host" = claude-code ] && [ "${0%/*}" -ef "${PLUGIN_ROOT-}" ]; then host=codex; fi

found() {
    { IFS= read -r python && IFS= read -r hook; } 2>/dev/null <"$home/front-door" && [ -x "$python" ] && [ -r "$hook" ]
}

# Whether the agent's own settings have our hooks, the person's or this project's: then those answer. They may have been
# edited since that was noted; two answers do no harm, none does.
in_settings() {
    [ -s "$home/hooked/$host" ] || return 1
    case $host in
    claude-code)
        settings=${CLAUDE_CONFIG_DIR:-$HOME/.claude}/settings.json
        own=${CLAUDE_PROJECT_DIR:-$PWD}/.claude/settings.local.json
        ;;
    codex) settings=${CODEX_HOME:-$HOME/.codex}/hooks.json own= ;;
    *)
        settings=${GEMINI_CLI_HOME:-$HOME}/.gemini/settings.json
        own=${GEMINI_PROJECT_DIR:-$PWD}/.gemini/settings.json
        ;;
    esac
    while IFS= read -r file; do
        if [ "$file" -ef "$settings" ] || [ "$file" -ef "$own" ]; then
            case $(cat "$file") in */hardwon/hook.py*) return 0 ;; esac
        fi
    done <"$home/hooked/$host"
    return 1
}

if [ "$event" = mcp ]; then
    if found; then exec "$python" -I -m hardwon mcp; fi
    if command -v hardwon >/dev/null; then exec hardwon mcp; fi
    echo "hardwon is not installed: pipx install PATH-OF-A-CLONE, then hardwon up" >&2
    exit 1
fi

if [ "${HARDWON_OFF:-0}" != 0 ] || in_settings; then
    cat >/dev/null
    echo '{}'
    exit 0
fi
# An agent that was started from another's shell has guards all the same, but what it is told is no person's word.
if [ "$event" != UserPromptSubmit ]; then export AI_AGENT="${host}_hook"; fi
if ! found && [ "$event" = SessionStart ] && command -v hardwon >/dev/null; then
    hardwon start </dev/null >/dev/null 2>&1
fi
if found; then exec "$python" -I -S "$hook" "$host" "$event" "$home"; fi

say="is not installed, so nothing is kept: pipx install PATH-OF-A-CLONE, then hardwon up"
if command -v hardwon >/dev/null; then say="did not start, so nothing is kept: hardwon doctor"; fi
case $event$(cat) in
SessionStart*'"startup"'*) echo "{\"systemMessage\": \"hardwon $say\"}" ;;
*) echo '{}' ;;
esac
exit 0
