// hardwon in VS Code: reports what you work on, shows the lessons about the open file, and asks what is remembered.
//
// Nothing here decides: the token may only report and propose, so accepting and ratifying happen in a terminal, where
// hardwon sees a person. There is no web view; texts are shown as read-only documents, which run no scripts.
"use strict";

const vscode = require("vscode");
const { execFile } = require("node:child_process");
const fs = require("node:fs");
const path = require("node:path");
const { Outbox } = require("./outbox");
const { Session } = require("./session");
const { UnsafeHome, callWorker, findHome, readWorker } = require("./worker");

const MAX_STATUS_CHARS = 60;
const START_LIMIT_MS = 30000; // `hardwon start` on a busy machine
const RETRY_MS = 2000; // while the worker is away; looking whether it is there reads one small file
const SCHEME = "hardwon";

let extension; // for deactivate

function activate(context) {
  // hardwon itself does not run on Windows; in WSL this extension runs beside it.
  if (process.platform === "win32") return;
  extension = new Extension(context);
  extension.start();
}

async function deactivate() {
  await extension?.stop();
}

class Extension {
  constructor(context) {
    this.context = context;
    this.settings = vscode.workspace.getConfiguration("hardwon");
    this.home = findHome(this.settings.get("home"));
    this.log = vscode.window.createOutputChannel("hardwon", { log: true });
    this.texts = new Map(); // the documents that are shown, by their address
    this.status = vscode.window.createStatusBarItem("hardwon", vscode.StatusBarAlignment.Right, 100);
    this.status.name = "hardwon";
    this.status.command = "hardwon.view";
    context.subscriptions.push(this.log, this.status);
  }

  start() {
    const commands = {
      search: () => this.search(),
      brief: () => this.showBrief(),
      review: () => this.runInTerminal("review"),
      handoff: () => this.runInTerminal(...this.buildHandoffCommand()),
      view: () => this.runInTerminal("view"),
    };
    for (const [name, run] of Object.entries(commands)) {
      this.context.subscriptions.push(vscode.commands.registerCommand(`hardwon.${name}`, run));
    }
    const provideTextDocumentContent = (uri) => this.texts.get(uri.toString()) ?? "";
    const provider = vscode.workspace.registerTextDocumentContentProvider(SCHEME, { provideTextDocumentContent });
    const onEditor = vscode.window.onDidChangeActiveTextEditor((editor) => this.noteShown(editor?.document));
    this.context.subscriptions.push(provider, onEditor);
    const timer = setInterval(() => this.retry(), RETRY_MS);
    this.context.subscriptions.push({ dispose: () => clearInterval(timer) });
    this.status.show();
    this.openSession();
    this.noteShown(vscode.window.activeTextEditor?.document);
  }

  /** Open the session of this window; without a folder, or without hardwon, there is nothing to record. */
  openSession() {
    const [folder] = vscode.workspace.workspaceFolders ?? [];
    if (folder?.uri.scheme !== "file" || !this.settings.get("record") || !fs.existsSync(this.home)) return;
    const queue = path.join(this.context.globalStorageUri.fsPath, "queue");
    const send = (route, body) => this.call("POST", route, body);
    this.outbox = new Outbox(queue, send, (message) => this.log.info(message));
    this.session = new Session({
      state: this.context.workspaceState,
      report: (route, body) => this.outbox.add(route, body).then(() => this.showStatus()),
      idleMs: this.settings.get("idleMinutes") * 60000,
      onResume: () => this.startWorker(),
    });
    this.session.open(folder.uri.fsPath);
    const onSave = vscode.workspace.onDidSaveTextDocument((document) => {
      const file = this.findFile(document);
      if (file) this.session.noteSave(file.path, file.folder);
    });
    this.context.subscriptions.push(onSave);
    this.startWorker();
    this.fetchBrief().catch((error) => this.log.info(`no brief yet: ${error.message}`));
  }

  /** Catch up once the worker is back. */
  async retry() {
    if (!this.problem) return;
    await this.outbox?.flush();
    await this.showStatus();
  }

  async stop() {
    if (!this.session) return;
    this.session.close();
    await this.outbox.flush(); // within the limit of one call if the worker hangs; the rest stays on disk
  }

  /** Return the path of a document and its folder; nothing for a file outside the workspace, which is private. */
  findFile(document) {
    if (document?.uri.scheme !== "file") return undefined;
    const folder = vscode.workspace.getWorkspaceFolder(document.uri);
    return folder && { path: document.uri.fsPath, folder: folder.uri.fsPath };
  }

  noteShown(document) {
    const file = this.findFile(document);
    // An output or a terminal that gets the focus is not another file: what is shown stays.
    if (!file && document) return;
    this.openPath = file?.path;
    if (file) this.session?.noteShown(file.path, file.folder);
    this.showStatus();
  }

  /** Show a lesson about the open file, else that hardwon is there, else what is wrong. */
  async showStatus() {
    const openPath = this.openPath;
    let lessons = [];
    let problem = "";
    try {
      if (openPath) lessons = await this.askJson(`/api/lessons?file=${encodeURIComponent(openPath)}`, "lessons");
      else readWorker(this.home);
    } catch (error) {
      problem = error.message;
    }
    this.problem = problem;
    if (openPath !== this.openPath) return; // another file was opened meanwhile, and its own answer comes
    const [lesson] = lessons;
    if (lesson) {
      const more = lessons.length > 1 ? ` (+${lessons.length - 1})` : "";
      this.status.text = `$(lightbulb) ${stripIcons(cutText(lesson.summary, MAX_STATUS_CHARS))}${more}`;
    } else {
      this.status.text = problem ? "$(circle-slash) hardwon" : "$(book) hardwon";
    }
    // A plain text, not Markdown: a lesson's words must not become links or commands.
    this.status.tooltip = lessons.map(({ text }) => text).join("\n\n") || this.describeState(problem);
  }

  describeState(problem) {
    if (!fs.existsSync(this.home)) return "hardwon is not set up. Install: uv tool install hardwon, then: hardwon up";
    if (!problem) return "hardwon: open the viewer";
    const count = this.outbox?.list().length ?? 0;
    return `hardwon: ${problem}` + (count ? `\n${count} ${count > 1 ? "events wait" : "event waits"} on disk` : "");
  }

  call(method, route, body) {
    return callWorker(this.home, method, route, body);
  }

  async askJson(route, field) {
    return JSON.parse(await this.call("GET", route))[field];
  }

  /** Start the worker if it is not running, as hooks do when a session begins. */
  startWorker() {
    try {
      readWorker(this.home);
    } catch (error) {
      if (error instanceof UnsafeHome) return this.log.warn(error.message);
      const options = { timeout: START_LIMIT_MS, env: { ...process.env, HARDWON_HOME: this.home } };
      execFile(this.settings.get("program"), ["start"], options, (failure) => {
        if (failure) this.log.info(`the worker was not started: ${failure.code ?? failure.message}`);
        this.retry();
      });
    }
  }

  async fetchBrief() {
    const [folder] = vscode.workspace.workspaceFolders ?? [];
    return this.call("GET", `/api/context/inject?project=${encodeURIComponent(folder?.uri.fsPath ?? "")}`);
  }

  showBrief() {
    return this.runAndTell(async () => {
      const brief = await this.fetchBrief();
      await this.showText("brief.md", brief || "hardwon has nothing to say about this project yet.");
    });
  }

  search() {
    return this.runAndTell(async () => {
      const query = await vscode.window.showInputBox({ prompt: "Search past sessions of this project" });
      if (!query) return;
      const project = vscode.workspace.workspaceFolders?.[0].uri.fsPath ?? "*";
      const hits = await this.askJson(`/api/search?${new URLSearchParams({ query, project })}`, "hits");
      const items = hits.map((hit) => ({
        label: cutText(hit.title || hit.text, 100),
        description: `${hit.kind}, ${new Date(hit.at * 1000).toLocaleDateString()}`,
        detail: cutText(hit.text, 200),
        id: hit.id,
      }));
      if (!items.length) return vscode.window.showInformationMessage(`hardwon: nothing found for "${query}"`);
      const picked = await vscode.window.showQuickPick(items, { matchOnDetail: true });
      if (!picked) return;
      const answer = JSON.parse(await this.call("POST", "/api/observations/batch", { ids: [picked.id] }));
      const [record] = answer.records;
      await this.showText(`${picked.id}.md`, record.error ?? `# ${record.title}\n\n${record.text}\n`);
    });
  }

  /** Show a text as a read-only document. */
  async showText(name, text) {
    const uri = vscode.Uri.from({ scheme: SCHEME, path: `/${Date.now()}/${name}` });
    this.texts.set(uri.toString(), text);
    await vscode.window.showTextDocument(await vscode.workspace.openTextDocument(uri), { preview: true });
  }

  /** Run what a person asked for, and tell them why it failed. */
  async runAndTell(run) {
    try {
      await run();
    } catch (error) {
      vscode.window.showWarningMessage(`hardwon: ${error.message}`);
    }
  }

  buildHandoffCommand() {
    return this.session ? ["handoff", "write", "--session", this.session.id] : ["handoff", "list"];
  }

  runInTerminal(...words) {
    const terminal =
      vscode.window.terminals.find(({ name, exitStatus }) => name === "hardwon" && exitStatus === undefined) ??
      vscode.window.createTerminal({ name: "hardwon", env: { HARDWON_HOME: this.home } });
    terminal.show();
    terminal.sendText([this.settings.get("program"), ...words].map(quoteWord).join(" "));
  }
}

function cutText(text, length) {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > length ? `${line.slice(0, length - 1)}…` : line;
}

/** Take from a text what the status bar would draw as an icon. */
function stripIcons(text) {
  return text.replaceAll("$(", "$ (");
}

function quoteWord(word) {
  return /^[\w./-]+$/.test(word) ? word : `'${word.replaceAll("'", "'\\''")}'`;
}

module.exports = { activate, deactivate };
