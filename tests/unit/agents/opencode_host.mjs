// Plays opencode to a plugin: node opencode_host.mjs PLUGIN < [[HOOK, INPUT, OUTPUT], …]; prints what became of each.
import { readFileSync } from "node:fs"
import { pathToFileURL } from "node:url"

const { Hardwon } = await import(pathToFileURL(process.argv[2]))
const toasts = []
const parents = { ses_child: "ses_1", ses_grandchild: "ses_child", ses_late: "ses_1" }
let late = 0
// It answers what went wrong instead of throwing it, as opencode's does.
const get = async ({ path: { id } }) =>
  id === "ses_lost" || (id === "ses_late" && late++ === 0)
    ? { error: "no answer" }
    : { data: { id, parentID: parents[id] } }
const client = {
  tui: { showToast: async ({ body }) => toasts.push(body.message) },
  session: { get },
}
const hooks = await Hardwon({ client, directory: "/home/dev/project" })
const results = []
for (const [hook, input, output] of JSON.parse(readFileSync(0, "utf8"))) {
  const thrown = await hooks[hook](input, output).then(() => "", (error) => error.message)
  results.push({ thrown, input, output })
}
console.log(JSON.stringify({ results, toasts }))
