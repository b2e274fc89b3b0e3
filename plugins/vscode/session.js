// One session per window: which events it reports, and when it pauses and ends.
"use strict";

const crypto = require("node:crypto");

const HOST = "vscode";
// A file shown for less was passed on the way to another, and automatic saving may save several times a second.
const SETTLE_MS = 1000;

class Session {
  /**
   * `state` has get and update, as a workspace's state in VS Code has; `report(route, body)` sends or keeps an event;
   * `onResume()` is called before the first event after a pause.
   */
  constructor({ state, report, idleMs, onResume = () => {} }) {
    Object.assign(this, { state, report, idleMs, onResume });
    this.settling = new Map(); // a timer and an event by what it is about
    this.shownPaths = new Set(); // since the last pause
    this.isPaused = true;
  }

  /** Open a session, or resume that of a window that was closed or reloaded just now. */
  open(folder) {
    const last = this.state.get("session");
    const isResumed = last && Date.now() - last.at < this.idleMs;
    this.id = isResumed ? last.id : crypto.randomUUID();
    this.folder = folder;
    this.send("init", {});
  }

  noteSave(path, folder) {
    this.settle(`save ${path}`, () => this.sendFile("FileSave", path, folder, "saved"));
  }

  noteShown(path, folder) {
    this.settle("shown", () => {
      if (this.shownPaths.has(path)) return;
      this.shownPaths.add(path);
      this.sendFile("FileOpen", path, folder, "opened");
    });
  }

  /** Report an event once it is not repeated or replaced by another for a moment. */
  settle(subject, event) {
    clearTimeout(this.settling.get(subject)?.timer);
    const run = () => {
      this.settling.delete(subject);
      event();
    };
    this.settling.set(subject, { timer: setTimeout(run, SETTLE_MS), run });
  }

  sendFile(tool, path, folder, response) {
    if (this.isPaused) this.onResume();
    this.isPaused = false;
    // With its own id an event that is sent twice, after a late answer, is stored once.
    const call = { tool_name: tool, tool_input: { path }, tool_response: response, tool_use_id: crypto.randomUUID() };
    this.send("observations", { ...call, cwd: folder });
    clearTimeout(this.idleTimer);
    this.idleTimer = setTimeout(() => this.pause(), this.idleMs);
  }

  /** Report the end of a turn: nothing happened for a while. */
  pause() {
    this.isPaused = true;
    this.shownPaths.clear();
    this.send("summarize", {});
  }

  /** End the session with all that it still has to report. */
  close() {
    for (const { timer, run } of [...this.settling.values()]) {
      clearTimeout(timer);
      run();
    }
    clearTimeout(this.idleTimer);
    return this.send("complete", { reason: "exit" });
  }

  send(call, fields) {
    // Without the time, what waited for the worker would seem to have happened when it came back.
    const at = Date.now();
    this.state.update("session", { id: this.id, at });
    const names = { sessionId: this.id, host: HOST, at: at / 1000 };
    if (call !== "complete") names.cwd = this.folder;
    return this.report(`/api/sessions/${call}`, { ...names, ...fields });
  }
}

module.exports = { SETTLE_MS, Session };
