#!/bin/sh
# Find the installed hardwon and exec its hook or its MCP server. Its path is in a file in hardwon's home, so no other
# process needs to be started. Whatever is missing, never stop a call of the agent.
#
#   door.sh HOST EVENT    with the payload on stdin
#   door.sh HOST mcp      (Codex does not expand the plugin's path in server commands, so .mcp.json has a short form of this)

host=$1 event=$2 home=${HARDWON_HOME:-$HOME/.hardwon}
# Codex runs Claude Code's plugins unchanged and sets PLUGIN_ROOT.
if [ "$host" = claude-code ] && [ "${0%/*}" -ef "${PLUGIN_ROOT-}" ]; then host=codex; fi

found() {
    { IFS= read -r python && IFS= read -r hook; } 2>/dev/null <"$home/front-door" && [ -x "$python" ] && [ -r "$hook" ]
}

# Return whether the user's or project's settings already have our hooks; those then answer. The settings may have changed
# since they were listed, so read them: answering twice is harmless, not answering is not.
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
    echo "hardwon is not installed: uv tool install hardwon, then hardwon up" >&2
    exit 1
fi

if [ "${HARDWON_OFF:-0}" != 0 ] || in_settings; then
    cat >/dev/null
    echo '{}'
    exit 0
fi
# Keep the guards active in an agent that was started from another agent's shell, but do not trust its prompts as a person's.
if [ "$event" != UserPromptSubmit ]; then export AI_AGENT="${host}_hook"; fi
if ! found && [ "$event" = SessionStart ] && command -v hardwon >/dev/null; then
    hardwon start </dev/null >/dev/null 2>&1
fi
if found; then exec "$python" -I -S "$hook" "$host" "$event" "$home"; fi

say="is not installed, so nothing is kept: uv tool install hardwon, then hardwon up"
if command -v hardwon >/dev/null; then say="did not start, so nothing is kept: hardwon doctor"; fi
case $event$(cat) in
SessionStart*'"startup"'*) echo "{\"systemMessage\": \"hardwon $say\"}" ;;
*) echo '{}' ;;
esac
exit 0
