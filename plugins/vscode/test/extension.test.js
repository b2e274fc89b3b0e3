// The parts that need no editor: node --test plugins/vscode/test
"use strict";

const assert = require("node:assert/strict");
const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");
const { afterEach, beforeEach, describe, it, mock } = require("node:test");
const { Outbox } = require("../outbox");
const { SETTLE_MS, Session } = require("../session");
const { Refused, UnsafeHome, WorkerAway, callWorker, findHome } = require("../worker");

const TOKEN = "made-up-token";
let root;
beforeEach(() => (root = fs.mkdtempSync(path.join(os.tmpdir(), "hardwon-"))));
afterEach(() => fs.rmSync(root, { recursive: true }));

function writeHome(port) {
  fs.chmodSync(root, 0o700);
  fs.writeFileSync(path.join(root, "token"), `${TOKEN}\n`, { mode: 0o600 });
  fs.writeFileSync(path.join(root, "worker.json"), JSON.stringify({ port, pid: process.pid }), { mode: 0o600 });
}

/** Serve with `answer(request, response)` while `use(port)` runs. */
async function withServer(answer, use) {
  const server = http.createServer(answer);
  await new Promise((resolve) => server.listen(0, "127.0.0.1", resolve));
  try {
    await use(server.address().port);
  } finally {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  }
}

describe("the worker", () => {
  it("is called with the home's token", async () => {
    const answer = (request, response) => response.end(request.headers.authorization + request.url);
    await withServer(answer, async (port) => {
      writeHome(port);
      assert.equal(await callWorker(root, "GET", "/api/health"), `Bearer ${TOKEN}/api/health`);
    });
  });

  it("is away without a home, without worker.json, when it was killed, and when it hangs", async () => {
    await assert.rejects(callWorker(path.join(root, "none"), "GET", "/"), WorkerAway);
    await assert.rejects(callWorker(root, "GET", "/"), WorkerAway);
    await withServer(() => {}, async (port) => {
      writeHome(port);
      await assert.rejects(callWorker(root, "GET", "/"), WorkerAway);
      fs.writeFileSync(path.join(root, "worker.json"), JSON.stringify({ port, pid: 2 ** 30 }));
      await assert.rejects(callWorker(root, "GET", "/"), /killed/);
    });
  });

  it("gets nothing if others can read the token or write to the home", async () => {
    let requests = 0;
    const answer = (request, response) => response.end(String(++requests));
    await withServer(answer, async (port) => {
      for (const [name, mode] of [["token", 0o644], ["worker.json", 0o660], [".", 0o777]]) {
        writeHome(port);
        fs.chmodSync(path.join(root, name), mode);
        await assert.rejects(callWorker(root, "GET", "/"), (error) => {
          return error instanceof UnsafeHome && error.message.includes("fix: chmod") && !error.message.includes(TOKEN);
        });
        fs.chmodSync(path.join(root, name), name === "." ? 0o700 : 0o600);
      }
    });
    assert.equal(requests, 0);
  });

  it("tells why it refuses", async () => {
    const answer = (request, response) => {
      response.statusCode = 400;
      response.end(JSON.stringify({ error: "no project given", fix: "?project=NAME" }));
    };
    await withServer(answer, async (port) => {
      writeHome(port);
      const isTold = (error) => error instanceof Refused && error.message === "no project given; fix: ?project=NAME";
      await assert.rejects(callWorker(root, "GET", "/"), isTold);
    });
  });

  it("is looked for in the settings' home, then in the environment's", () => {
    assert.equal(findHome("~/other"), path.join(os.homedir(), "other"));
    assert.equal(findHome("/srv/home"), "/srv/home");
  });
});

describe("the outbox", () => {
  const ignore = () => {};
  const listOrder = (bodies) => bodies.map((body) => body.number);

  it("keeps events on disk while the worker is away, and sends them in order", async () => {
    let isAway = true;
    const sent = [];
    const send = async (route, body) => {
      if (isAway) throw new WorkerAway("away");
      sent.push(body);
    };
    const outbox = new Outbox(path.join(root, "queue"), send, ignore);
    for (const number of [1, 2, 3]) await outbox.add("/x", { number });
    assert.equal(outbox.list().length, 3);
    isAway = false;
    const next = new Outbox(path.join(root, "queue"), send, ignore); // of the next start
    await next.add("/x", { number: 4 });
    assert.deepEqual([listOrder(sent), next.list()], [[1, 2, 3, 4], []]);
  });

  it("drops an event that the worker rejects, and goes on", async () => {
    const sent = [];
    const messages = [];
    const send = async (route, body) => {
      if (body.number === 1) throw new Refused(400, "bad");
      sent.push(body);
    };
    const outbox = new Outbox(path.join(root, "queue"), send, (message) => messages.push(message));
    fs.writeFileSync(path.join(root, "queue", "000000000000000-x.json"), "{");
    await Promise.all([outbox.add("/x", { number: 1 }), outbox.add("/x", { number: 2 })]);
    assert.deepEqual([listOrder(sent), outbox.list(), messages.length], [[2], [], 2]);
  });

  it("keeps an event that the worker has no room for", async () => {
    const send = async () => {
      throw new Refused(503, "the database is busy");
    };
    const outbox = new Outbox(path.join(root, "queue"), send, ignore);
    await outbox.add("/x", {});
    assert.equal(outbox.list().length, 1);
  });

  it("lets one window send at a time, and takes over from one that died", async () => {
    const sent = [];
    const outbox = new Outbox(path.join(root, "queue"), async (route, body) => sent.push(body), ignore);
    fs.writeFileSync(outbox.lock, "");
    await outbox.add("/x", { number: 1 });
    assert.equal(sent.length, 0);
    fs.utimesSync(outbox.lock, 0, 0);
    await outbox.flush();
    assert.equal(sent.length, 1);
  });

  it("is private", async () => {
    const outbox = new Outbox(path.join(root, "queue"), async () => { throw new WorkerAway("away"); }, ignore);
    await outbox.add("/x", {});
    const modes = [".", ...outbox.list()].map((name) => fs.statSync(path.join(outbox.folder, name)).mode & 0o777);
    assert.deepEqual(modes, [0o700, 0o600]);
  });
});

describe("a session", () => {
  const IDLE_MS = 60000;
  beforeEach(() => mock.timers.enable({ apis: ["setTimeout", "Date"] }));
  afterEach(() => mock.timers.reset());

  function open(stored = new Map()) {
    const reports = [];
    const state = { get: (key) => stored.get(key), update: (key, value) => stored.set(key, value) };
    const report = (route, body) => reports.push([route.split("/").pop(), body]);
    let resumed = 0;
    const session = new Session({ state, report, idleMs: IDLE_MS, onResume: () => resumed++ });
    session.open("/home/dev/kite");
    const list = () => reports.map(([call, body]) => (body.tool_name ? `${body.tool_name} ${body.tool_input.path}` : call));
    return { session, reports, stored, list, countResumed: () => resumed };
  }

  it("reports a file once that is saved again and again", () => {
    const { session, list } = open();
    for (let count = 0; count < 5; count++) {
      session.noteSave("/a", "/home/dev/kite");
      mock.timers.tick(SETTLE_MS / 2);
    }
    session.noteSave("/b", "/home/dev/kite");
    mock.timers.tick(SETTLE_MS);
    assert.deepEqual(list(), ["init", "FileSave /a", "FileSave /b"]);
  });

  it("reports a file that stays open, not those passed on the way, and once until the next pause", () => {
    const { session, list } = open();
    for (const name of ["/a", "/b", "/c"]) session.noteShown(name, "/home/dev/kite");
    mock.timers.tick(SETTLE_MS);
    session.noteShown("/c", "/home/dev/kite");
    mock.timers.tick(SETTLE_MS);
    assert.deepEqual(list(), ["init", "FileOpen /c"]);
    mock.timers.tick(IDLE_MS);
    session.noteShown("/c", "/home/dev/kite");
    mock.timers.tick(SETTLE_MS);
    assert.deepEqual(list(), ["init", "FileOpen /c", "summarize", "FileOpen /c"]);
  });

  it("pauses once after an idle time, and has the worker started when work goes on", () => {
    const { session, list, countResumed } = open();
    mock.timers.tick(10 * IDLE_MS);
    assert.deepEqual(list(), ["init"]);
    session.noteSave("/a", "/home/dev/kite");
    mock.timers.tick(SETTLE_MS); // apart, because a timer that starts within a tick counts from its end
    mock.timers.tick(10 * IDLE_MS);
    session.noteSave("/a", "/home/dev/kite");
    mock.timers.tick(SETTLE_MS);
    assert.deepEqual([list(), countResumed()], [["init", "FileSave /a", "summarize", "FileSave /a"], 2]);
  });

  it("ends with what it still has to report", () => {
    const { session, list } = open();
    session.noteSave("/a", "/home/dev/kite");
    session.close();
    mock.timers.tick(10 * IDLE_MS);
    assert.deepEqual(list(), ["init", "FileSave /a", "complete"]);
  });

  it("is resumed after a reload, and a new one after an idle time", () => {
    const first = open();
    first.session.close();
    mock.timers.tick(IDLE_MS - 1);
    const reloaded = open(first.stored);
    assert.equal(reloaded.session.id, first.session.id);
    mock.timers.tick(IDLE_MS);
    assert.notEqual(open(first.stored).session.id, first.session.id);
  });

  it("gives each event its time and each file event an id of its own", () => {
    const { session, reports } = open();
    mock.timers.tick(5000);
    session.noteSave("/a", "/home/dev/kite");
    session.noteSave("/b", "/home/dev/kite");
    mock.timers.tick(SETTLE_MS);
    const bodies = reports.map(([, body]) => body);
    assert.deepEqual(bodies.map((body) => body.at), [0, 6, 6]);
    assert.notEqual(bodies[1].tool_use_id, bodies[2].tool_use_id);
  });
});
