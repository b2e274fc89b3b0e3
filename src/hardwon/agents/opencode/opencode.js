// hardwon's plugin for opencode and Kilo. It decides nothing: each hook is handed to the command below, and the answer
// is obeyed. Without an answer in time, or with one that makes no sense, the agent goes on as if this file were not here.
// Made by `hardwon install`; `hardwon uninstall` takes it away.
import { spawn } from "node:child_process"

const HOOKS = {}
const HANDOFF = ""

const parsed = (answer) => {
  try {
    return Object(JSON.parse(answer))
  } catch {
    return {}
  }
}

const run = (event, payload) =>
  new Promise((resolve) => {
    const [command, seconds] = HOOKS[event]
    const told = { cwd: "/", detached: true, stdio: ["pipe", "pipe", "ignore"] }
    const child = spawn("/bin/sh", ["-c", command], told)
    const late = setTimeout(() => {
      resolve("")
      try {
        process.kill(-child.pid, "SIGKILL")
      } catch {} // it is gone, and something that it started holds its output open
    }, seconds * 1000)
    const end = (answer) => {
      clearTimeout(late)
      resolve(answer)
    }
    let answer = ""
    child.on("error", () => end(""))
    child.on("close", () => end(answer))
    child.stdin.on("error", () => {})
    child.stdout.setEncoding("utf8").on("data", (text) => (answer += text))
    child.stdin.end(JSON.stringify(payload))
  })

export const Hardwon = async ({ client, directory }) => {
  // Installed for the person and for the project, it is loaded twice; the first speaks.
  const speakers = (globalThis[Symbol.for("hardwon")] ??= {})
  if ((speakers[directory] ??= import.meta.url) !== import.meta.url) return {}

  const sessions = new Map() // what is known of each: its parent, whether it began here
  const waiting = new Map() // what a session opens with once it is compacted
  const running = new Set()

  // Of each session: the agent's latest words, the calls whose end was told or that were denied, and by a command's text
  // what the person typed for it.
  const kept = new Map()
  const of = (sessionID) =>
    kept.get(sessionID) ?? kept.set(sessionID, { said: undefined, told: new Set(), typed: new Map() }).get(sessionID)

  // Of a session that may be a sub-agent's for all we know nothing is told; what guards is asked all the same.
  const ask = async (event, { unknown, ...payload }) => {
    if (unknown && event !== "PreToolUse") return {}
    const asked = run(event, { directory, ...payload }).catch(() => "")
    running.add(asked)
    const answer = parsed(await asked)
    running.delete(asked)
    if (answer.notice) client.tui.showToast({ body: { message: answer.notice, variant: "info" } }).catch(() => {})
    return answer
  }

  // The session in which a person types: a sub-agent may have been started by another. What failed is asked again.
  const root = async (sessionID) => {
    if (!sessions.has(sessionID)) {
      const found = await client.session.get({ path: { id: sessionID } }).catch(() => undefined)
      if (!found?.data) return undefined
      sessions.set(sessionID, { parentID: found.data.parentID, source: "resume" })
    }
    const { parentID } = sessions.get(sessionID)
    return parentID ? root(parentID) : sessionID
  }

  const about = async (sessionID) => {
    const top = await root(sessionID)
    return { sessionID, parentID: top === sessionID ? undefined : top, unknown: !top }
  }

  const opened = async (sessionID, agent) => {
    const family = await about(sessionID)
    const session = sessions.get(sessionID)
    if (family.unknown || session.open) return ""
    session.open = true
    const event = family.parentID ? "SubagentStart" : "SessionStart"
    return (await ask(event, { ...family, agent, source: session.source })).context
  }

  const anew = async (sessionID) => {
    const context = (await waiting.get(sessionID))?.context
    waiting.delete(sessionID)
    return context
  }

  const closed = (sessionID, reason) => {
    const { open, parentID } = sessions.get(sessionID) ?? {}
    for (const known of [sessions, waiting, kept]) known.delete(sessionID)
    return open && !parentID ? ask("SessionEnd", { sessionID, reason }) : undefined
  }

  const events = {
    "session.created": ({ info }) => sessions.set(info.id, { parentID: info.parentID, source: "startup" }),
    "session.deleted": ({ info }) => closed(info.id, "deleted"),
    "session.idle": async ({ sessionID }) => {
      const { said } = of(sessionID)
      const family = await about(sessionID)
      await ask(family.parentID ? "SubagentStop" : "Stop", { ...family, said })
    },
    "session.compacted": async ({ sessionID }) => {
      const family = await about(sessionID)
      if (!family.parentID) waiting.set(sessionID, ask("SessionStart", { ...family, source: "compact" }))
    },
    "message.part.updated": async ({ part }) => {
      const { tool, callID, state } = part
      if (part.type === "text" && part.time?.end) of(part.sessionID).said = part.text
      if (part.type !== "tool" || state.status !== "error" || of(part.sessionID).told.has(callID)) return
      of(part.sessionID).told.add(callID)
      await ask("PostToolUseFailure", {
        ...(await about(part.sessionID)), tool, callID, args: state.input, error: state.error,
      })
    },
  }

  return {
    event: async ({ event }) => {
      await events[event.type]?.(event.properties)
    },

    "command.execute.before": async ({ command, sessionID, arguments: words }, { parts }) => {
      const { typed } = of(sessionID)
      for (const part of parts) if (part.type === "text") typed.set(part.text, `/${command} ${words}`.trim())
    },

    "chat.message": async ({ sessionID, agent }, { message, parts }) => {
      const context = [await opened(sessionID, agent), await anew(sessionID)]
      const family = await about(sessionID)
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic && !part.ignored)
      const words = texts.map(({ text }) => text).join("\n")
      if (words && !family.parentID) {
        const prompt = of(sessionID).typed.get(words) ?? words
        context.push((await ask("UserPromptSubmit", { ...family, messageID: message.id, prompt })).context)
      }
      const text = context.filter(Boolean).join("\n\n")
      // Parts are kept in the order of their ids.
      const id = `${parts.at(-1)?.id ?? "prt_"}h`
      if (text) parts.push({ id, sessionID, messageID: message.id, type: "text", synthetic: true, text })
    },

    "tool.execute.before": async ({ tool, sessionID, callID }, { args }) => {
      const { deny } = await ask("PreToolUse", { ...(await about(sessionID)), tool, callID, args })
      if (!deny) return
      of(sessionID).told.add(callID)
      throw new Error(deny)
    },

    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) => {
      of(sessionID).told.add(callID)
      if (!result) return
      const { output, content, isError } = result
      const call = { tool, callID, args, output, content, isError, exit: result.metadata?.exit }
      const answer = await ask("PostToolUse", { ...(await about(sessionID)), ...call })
      const text = [answer.context, await anew(sessionID)].filter(Boolean).join("\n\n")
      if (text && Array.isArray(content)) content.push({ type: "text", text })
      else if (text) result.output = `${output ?? ""}\n\n${text}`
    },

    "shell.env": async ({ callID, sessionID }, { env }) => {
      if (callID) env.AI_AGENT = "opencode_agent"
      if (sessionID) env.HARDWON_SESSION = (await root(sessionID)) ?? sessionID
    },

    config: async (config) => {
      config.command = { handoff: { description: "Write a handoff for the next session", template: HANDOFF }, ...config.command }
    },

    "experimental.session.compacting": async ({ sessionID }, output) => {
      const { context } = await ask("PreCompact", await about(sessionID))
      if (context) output?.context?.push(context)
    },

    dispose: async () => {
      await Promise.all(running)
      await Promise.all([...sessions.keys()].map((sessionID) => closed(sessionID, "exit")))
    },
  }
}
