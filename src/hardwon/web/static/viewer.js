// Small helps on top of pages that work without them. What the server sends is escaped there; nothing is put
// together from text here.
"use strict";

const parsed = (html) => new DOMParser().parseFromString(html, "text/html");

// Now: a sign that something happened brings the rows behind the last one that is shown.
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
        if (rows.length) document.querySelector("[data-empty]")?.remove();
      }
    } catch { /* the stream says when the worker is back */ }
    asked = false;
    if (again) { again = false; setTimeout(catchUp, 100); }
  }
  let waits = 0;
  const soon = () => { clearTimeout(waits); waits = setTimeout(catchUp, 120); };
  function connect() {
    const source = new EventSource("/live");
    source.onopen = () => { say("Live: it shows as it happens.", true); soon(); };
    source.onerror = () => {
      say("The worker is away; trying again.", false);
      // A worker that is back knows nobody: the page itself, asked again, says so.
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

// Search: what was found follows what is typed.
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
      if (!answer.ok) { location.reload(); return; } // it says why
      const text = await answer.text();
      if (mine === turn) shown.replaceChildren(...parsed(text).body.childNodes);
    } catch {
      if (mine === turn) shown.textContent = "The worker is away, so nothing was looked for: hardwon start";
    }
  }
  const soon = () => { clearTimeout(waits); waits = setTimeout(ask, 150); };
  form.addEventListener("input", soon);
  form.addEventListener("submit", (event) => { event.preventDefault(); ask(); });
}

// Keys: a letter presses what names it, j and k walk through rows, g goes places.
const places = {
  n: "/", s: "/sessions", l: "/lessons", r: "/review", m: "/memory", h: "/handoffs", i: "/insights", o: "/settings",
};
let going = false, leaving = false; // a second key must not fall on a page that is on its way out

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
