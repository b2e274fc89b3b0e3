// Events that wait on disk until the worker has taken them.
//
// hardwon's own spool cannot hold them: what is in there has passed the privacy filters, and those run in the worker.
"use strict";

const crypto = require("node:crypto");
const fs = require("node:fs");
const path = require("node:path");
const { Refused } = require("./worker");

const MAX_WAITING = 10000; // weeks of work; a disk that fills up helps nobody
const LOCK_STALE_MS = 10000; // a window that sends renews the lock with each event, and an event takes 2 s at most

class Outbox {
  /** `send(route, body)` returns a promise; `log(message)` gets what could not be sent. */
  constructor(folder, send, log) {
    this.folder = folder;
    this.send = send;
    this.log = log;
    this.lock = path.join(folder, "lock");
    this.counter = 0;
    this.pending = Promise.resolve();
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 });
  }

  list() {
    return fs.readdirSync(this.folder).filter((name) => name.endsWith(".json")).sort();
  }

  /** Write an event to the disk and send it; the write has ended when this returns, so a crash loses nothing. */
  add(route, body) {
    if (this.list().length >= MAX_WAITING) {
      this.log(`${MAX_WAITING} events wait already, so one was dropped; fix: hardwon start`);
      return this.pending;
    }
    // Names sort by time, in microseconds; the counter keeps the order of what is added within one.
    const at = Math.floor((performance.timeOrigin + performance.now()) * 1000);
    const order = `${String(at).padStart(18, "0")}-${String(this.counter++).padStart(9, "0")}`;
    const file = path.join(this.folder, `${order}-${crypto.randomUUID()}`);
    fs.writeFileSync(`${file}.new`, JSON.stringify({ route, body }), { mode: 0o600 });
    fs.renameSync(`${file}.new`, `${file}.json`);
    return this.flush();
  }

  /** Send what waits, oldest first. The promise is kept when all is sent or the worker is away. */
  flush() {
    this.pending = this.pending.then(() => this.sendAll()).catch((error) => this.log(error.message));
    return this.pending;
  }

  async sendAll() {
    if (!this.list().length || !this.takeLock()) return;
    try {
      await this.sendInOrder();
    } finally {
      fs.rmSync(this.lock, { force: true });
    }
  }

  async sendInOrder() {
    for (let names = this.list(); names.length; names = this.list()) {
      const file = path.join(this.folder, names[0]);
      fs.utimesSync(this.lock, new Date(), new Date());
      try {
        const { route, body } = JSON.parse(fs.readFileSync(file, "utf8"));
        await this.send(route, body);
      } catch (error) {
        const isUnreadable = error instanceof SyntaxError;
        const isRejected = error instanceof Refused && [400, 404, 413].includes(error.status);
        if (!isUnreadable && !isRejected) {
          this.log(`${names.length} events wait: ${error.message}`);
          return;
        }
        // It would be rejected each time and hold up all that follows.
        this.log(`an event was dropped: ${error.message}`);
      }
      fs.rmSync(file, { force: true });
    }
  }

  /** Return whether this window may send; two windows at once would mix up the order. */
  takeLock() {
    try {
      if (Date.now() - fs.statSync(this.lock).mtimeMs > LOCK_STALE_MS) fs.rmSync(this.lock, { force: true });
    } catch {
      // There is no lock.
    }
    try {
      fs.closeSync(fs.openSync(this.lock, "wx", 0o600));
      return true;
    } catch {
      return false;
    }
  }
}

module.exports = { MAX_WAITING, Outbox };
