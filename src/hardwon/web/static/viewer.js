// Conveniences on top of pages that work without scripts. The server sends escaped HTML; no HTML is built here.
"use strict";

const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

// Home: a live message makes the page fetch the rows that are newer than the last one shown.
function follow(stream) {
  const state = document.querySelector("[data-live]");
  let marks = stream.dataset.stream, asked = false, again = false;
  const say = (text, on) => {
    if (state.textContent !== text) state.textContent = text;
    state.classList.toggle("on", on);
    state.classList.toggle("off", !on);
  };
  async function catchUp() {
    if (asked) { again = true; return; }
    asked = true;
    try {
      const answer = await fetch(`/?after=${encodeURIComponent(marks)}`);
      if (answer.status === 401) { location.reload(); return; }
      const part = parsed(await answer.text()).querySelector("[data-marks]");
      if (part) {
        marks = part.dataset.marks;
        const rows = [...part.querySelectorAll("ol > li")];
        rows.forEach((row) => row.classList.add("new"));
        stream.prepend(...rows);
        while (stream.children.length > 200) stream.lastElementChild.remove();
        document.querySelector("[data-queue]").replaceChildren(...part.querySelector("aside").childNodes);
        if (rows.length) {
          document.querySelector("[data-empty]")?.remove();
          stream.closest("section").hidden = false;
        }
      }
    } catch { /* the live stream reconnects when the worker is back */ }
    asked = false;
    if (again) { again = false; setTimeout(catchUp, 100); }
  }
  let waits = 0;
  const soon = () => { clearTimeout(waits); waits = setTimeout(catchUp, 120); };
  function connect() {
    const source = new EventSource("/live");
    source.onopen = () => { say("Live", true); soon(); };
    source.onerror = () => {
      say("Worker not reachable, retrying", false);
      // Somebody may have signed this browser out meanwhile: reloading then shows how to sign in again.
      if (source.readyState === EventSource.CLOSED) setTimeout(async () => { await catchUp(); connect(); }, 3000);
    };
    for (const kind of ["session", "prompt", "event", "observation", "delivery", "job", "processing"]) {
      source.addEventListener(kind, soon);
    }
    window.addEventListener("pagehide", () => source.close(), { once: true });
  }
  connect();
  window.addEventListener("pageshow", (event) => { if (event.persisted) location.reload(); });
}

// Search: results follow what is typed.
function seek(form) {
  const shown = document.querySelector("[data-hits]");
  let waits = 0, turn = 0;
  async function ask() {
    const values = new URLSearchParams([...new FormData(form)].filter(([, value]) => value));
    const mine = ++turn;
    history.replaceState(null, "", `/search?${values}`);
    values.set("part", "1");
    try {
      const answer = await fetch(`/search?${values}`);
      if (!answer.ok) { location.reload(); return; } // the page says why
      const text = await answer.text();
      if (mine === turn) shown.replaceChildren(...parsed(text).body.childNodes);
    } catch {
      if (mine === turn) shown.textContent = "Worker not reachable. Run: hardwon start";
    }
  }
  const soon = () => { clearTimeout(waits); waits = setTimeout(ask, 150); };
  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
}

// Keys: a letter clicks the element with that data-key, j and k move through rows, g opens a page.
const places = {
  n: "/", s: "/sessions", l: "/lessons", r: "/inbox", m: "/memory", h: "/handoffs", i: "/insights", o: "/settings",
};
let going = false, leaving = false; // ignore keys while the next page is loading

function press(event) {
  const field = event.target.closest("input, textarea, select");
  if (event.key === "Escape" && field) { field.blur(); return; }
  if (field || leaving || (event.repeat && !"jk".includes(event.key)) || event.ctrlKey || event.metaKey || event.altKey) return;
  if (document.querySelector("dialog[open]")) return;
  if (going) {
    going = false;
    if (places[event.key]) { leaving = true; location.assign(places[event.key]); }
    return;
  }
  const named = document.querySelector(`[data-key="${CSS.escape(event.key)}"]`);
  if (named) { event.preventDefault(); leaving = true; named.click(); return; }
  if (event.key === "g") { going = true; setTimeout(() => { going = false; }, 1500); }
  else if (event.key === "?") { document.querySelector("dialog.keys")?.showModal(); }
  else if (event.key === "/") {
    event.preventDefault();
    const box = document.querySelector("[data-slash]");
    if (box) box.focus(); else { leaving = true; location.assign("/search"); }
  } else if (event.key === "j" || event.key === "k") {
    const rows = [...document.querySelectorAll("[data-row]")];
    const next = rows.indexOf(document.activeElement) + (event.key === "j" ? 1 : -1);
    rows[Math.max(0, Math.min(next, rows.length - 1))]?.focus();
  }
}

function offerCopy(held) {
  const text = held.textContent, button = document.createElement("button");
  Object.assign(button, { type: "button", className: "copy", textContent: "Copy" });
  button.addEventListener("click", async () => {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  });
  held.append(button);
}

const stream = document.querySelector("[data-stream]"), form = document.querySelector("[data-search]");
if (stream) follow(stream);
if (form) seek(form);
document.addEventListener("keydown", press);
window.addEventListener("pageshow", () => { leaving = false; });
if (navigator.clipboard) document.querySelectorAll("[data-copy]").forEach(offerCopy);
document.querySelector(".top [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
const keys = document.querySelector("[data-keys]");
if (keys) { keys.hidden = false; keys.addEventListener("click", () => document.querySelector("dialog.keys").showModal()); }
