// Find the worker in hardwon's home and call its API.
//
// The token stays in this module: it is read for each call, sent to 127.0.0.1 alone, and is in no error message.
"use strict";

const fs = require("node:fs");
const http = require("node:http");
const os = require("node:os");
const path = require("node:path");

const LIMIT_MS = 2000; // nobody waits longer for hardwon, whatever the worker does

/** No worker answers now; what was to be sent is sent later. */
class WorkerAway extends Error {}

/** Somebody else could read the token or name another worker, so nothing is sent. */
class UnsafeHome extends Error {}

/** The worker answered with an error. */
class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

function findHome(configuredHome) {
  const home = configuredHome || process.env.HARDWON_HOME || "~/.hardwon";
  return path.resolve(home.replace(/^~(?=$|\/)/, os.homedir()));
}

function readPrivateFile(file) {
  // Not blocking, because a pipe in this place would hang the editor's extensions.
  const descriptor = fs.openSync(file, fs.constants.O_RDONLY | fs.constants.O_NONBLOCK);
  try {
    const stat = fs.fstatSync(descriptor);
    if (!stat.isFile() || stat.uid !== process.getuid() || stat.mode & 0o077) {
      throw new UnsafeHome(`${file} is open to other users; fix: chmod 600 ${file}`);
    }
    return fs.readFileSync(descriptor, "utf8");
  } finally {
    fs.closeSync(descriptor);
  }
}

function checkFolder(home) {
  const stat = fs.statSync(home);
  if (stat.uid !== process.getuid() || stat.mode & 0o022) {
    throw new UnsafeHome(`other users can write to ${home}; fix: chmod 700 ${home}`);
  }
}

/** Return the port and the token of the worker that runs; throw WorkerAway if none does. */
function readWorker(home) {
  let worker, token;
  try {
    checkFolder(home);
    worker = JSON.parse(readPrivateFile(path.join(home, "worker.json")));
    token = readPrivateFile(path.join(home, "token")).trim();
  } catch (error) {
    if (error instanceof UnsafeHome) throw error;
    throw new WorkerAway(`the worker is not running (${error.code || "worker.json is not complete"})`);
  }
  if (!worker.port) throw new WorkerAway("the worker serves no API");
  try {
    // Another program may have taken the port of a worker that was killed, and must not get the token.
    process.kill(worker.pid, 0);
  } catch {
    throw new WorkerAway("the worker is not running (it was killed)");
  }
  return { port: worker.port, token };
}

/** Return the text that the worker answers with. */
async function callWorker(home, method, route, body) {
  const { port, token } = readWorker(home);
  const content = body === undefined ? "" : JSON.stringify(body);
  return new Promise((resolve, reject) => {
    const headers = { authorization: `Bearer ${token}`, "content-length": Buffer.byteLength(content) };
    if (content) headers["content-type"] = "application/json";
    const fail = (error) => reject(new WorkerAway(`the worker does not answer (${error.code || error.message})`));
    const request = http.request(
      { host: "127.0.0.1", port, method, path: route, headers, agent: false, signal: AbortSignal.timeout(LIMIT_MS) },
      (response) => {
        const chunks = [];
        response.on("data", (chunk) => chunks.push(chunk));
        response.on("error", fail);
        response.on("end", () => {
          const text = Buffer.concat(chunks).toString("utf8");
          if (response.statusCode < 300) resolve(text);
          else reject(new Refused(response.statusCode, describeRefusal(text)));
        });
      },
    );
    request.on("error", fail);
    request.end(content);
  });
}

function describeRefusal(text) {
  try {
    const answer = JSON.parse(text);
    return `${answer.error}; fix: ${answer.fix}`;
  } catch {
    return text.slice(0, 200);
  }
}

module.exports = { LIMIT_MS, Refused, UnsafeHome, WorkerAway, callWorker, findHome, readWorker };
