// zapomni
// Hands what happens in a session to `zapomni record`, and its answers to the model.
import { spawn } from "node:child_process"

const COMMAND = ["zapomni", "record", "--host", "opencode", "--hooks", "2"]
const LIMIT = 5000 // milliseconds

/** Sends one event; resolves to what was answered, to nothing if anything is wrong. */
function record(event) {
  return new Promise((resolve) => {
    let answer = ""
    const child = spawn(COMMAND[0], COMMAND.slice(1), { stdio: ["pipe", "pipe", "ignore"] })
    const timer = setTimeout(() => child.kill(), LIMIT)
    const end = (text) => {
      clearTimeout(timer)
      resolve(text)
    }
    child.on("error", () => end(""))
    child.on("close", (code) => end(code === 0 ? answer.trim() : ""))
    child.stdout.on("data", (part) => (answer += part))
    child.stdin.on("error", () => {})
    child.stdin.end(JSON.stringify(event))
  }).catch(() => "")
}

export const Zapomni = async ({ directory }) => {
  const parents = new Map() // the session of a subagent: the session that started it
  const begun = new Set() // sessions that began in this process; others are resumed
  const contexts = new Map() // a session: what it is given, once that is known
  const recalled = new Map() // a session: what its prompts and failures brought back
  const failures = new Set()

  const send = (name, session, fields) => {
    const parent = parents.get(session)
    const who = parent ? { session_id: parent, agent_id: session } : { session_id: session }
    return record({ hook_event_name: name, cwd: directory, ...who, ...fields })
  }
  const start = (session, source) =>
    contexts.set(session, send("session.start", session, { source }))
  const recall = async (name, session, fields) => {
    const text = await send(name, session, fields)
    if (text) recalled.set(session, [...(recalled.get(session) ?? []), text])
  }

  return {
    event: async ({ event }) => {
      const about = event.properties ?? {}
      if (event.type === "session.created") {
        const { id, parentID } = about.info ?? {}
        if (parentID) parents.set(id, parents.get(parentID) ?? parentID)
        else begun.add(id)
      } else if (event.type === "session.compacted" && !parents.has(about.sessionID)) {
        await send("session.compacted", about.sessionID)
        start(about.sessionID, "compact")
      } else if (event.type === "session.idle" && !parents.has(about.sessionID)) {
        await send("session.idle", about.sessionID)
      } else if (event.type === "message.part.updated" && about.part?.state?.status === "error") {
        const { callID, sessionID, state, tool } = about.part
        if (!tool || failures.has(callID)) return
        failures.add(callID)
        await recall("tool.failed", sessionID, {
          tool_name: tool,
          tool_use_id: callID,
          tool_input: state.input,
          error: state.error,
        })
      }
    },
    "chat.message": async ({ sessionID }, { message, parts }) => {
      if (parents.has(sessionID)) return // the prompt of a subagent is not the user's
      if (!contexts.has(sessionID)) start(sessionID, begun.has(sessionID) ? "startup" : "resume")
      await contexts.get(sessionID)
      const texts = parts.filter((part) => part.type === "text" && !part.synthetic)
      const prompt = texts.map((part) => part.text).join("\n")
      if (prompt) await recall("chat.message", sessionID, { prompt, message_id: message?.id })
    },
    "experimental.chat.system.transform": async ({ sessionID }, { system }) => {
      const context = await contexts.get(sessionID)
      if (context) system.push(context)
      system.push(...(recalled.get(sessionID) ?? []))
    },
    "tool.execute.after": async ({ tool, sessionID, callID, args }, result) => {
      const known = await send("tool.execute.after", sessionID, {
        tool_name: tool,
        tool_use_id: callID,
        tool_input: args,
        tool_response: { output: result?.output, metadata: result?.metadata },
      })
      if (known && typeof result?.output === "string") result.output += `\n\n${known}`
    },
    dispose: async () => {
      await Promise.all([...contexts.keys()].map((session) => send("session.end", session)))
    },
  }
}
