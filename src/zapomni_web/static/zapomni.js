// What makes the page quicker to use. Everything works without it.
"use strict";

const all = (selector, root = document) => [...root.querySelectorAll(selector)];
const store = {
  get(name) {
    try { return localStorage.getItem(name); } catch { return null; }
  },
  set(name, value) {
    try { value ? localStorage.setItem(name, value) : localStorage.removeItem(name); } catch {}
  },
};

// --- The second secret of --host 127.0.0.1 ------------------------------------------------

const enter = document.getElementById("enter");
if (enter?.dataset.second) {
  try { sessionStorage.setItem("second", enter.dataset.second); } catch {}
  location.replace("/");
}

document.addEventListener("submit", async (event) => {
  let second = null;
  try { second = sessionStorage.getItem("second"); } catch {}
  const form = event.target;
  if (!second || form.method !== "post") return;
  event.preventDefault();
  const answer = await fetch(form.action, {
    method: "POST",
    body: new URLSearchParams(new FormData(form, event.submitter)),
    headers: { "X-Zapomni-Second": second },
  });
  if (answer.redirected) {
    location.href = answer.url;
  } else {
    swap("main", await answer.text());
  }
});

// --- Colors ---------------------------------------------------------------------------------

for (const field of all("fieldset.theme")) {
  field.hidden = false;
  for (const choice of all("input", field)) {
    choice.checked = choice.value === (store.get("theme") ?? "");
    choice.addEventListener("change", () => {
      store.set("theme", choice.value);
      if (choice.value) document.documentElement.dataset.theme = choice.value;
      else delete document.documentElement.dataset.theme;
    });
  }
}

// --- Copying --------------------------------------------------------------------------------

for (const button of all("button.copy")) button.hidden = !navigator.clipboard;
document.addEventListener("click", async (event) => {
  const button = event.target.closest?.("button.copy");
  if (!button) return;
  await navigator.clipboard.writeText(button.dataset.copy);
  button.textContent = "Copied";
  setTimeout(() => { button.textContent = "Copy"; }, 1500);
});

// --- Keyboard -------------------------------------------------------------------------------

const keys = document.getElementById("keys");
if (keys) {
  keys.closest(".switch").hidden = false;
  keys.checked = store.get("keys") !== "off";
  keys.addEventListener("change", () => store.set("keys", keys.checked ? "" : "off"));
}

function items() {
  return all("#main .hit, #main [data-item]");
}

function move(step) {
  const list = items();
  if (!list.length) return;
  const now = list.findIndex((one) => one.contains(document.activeElement));
  const next = list[Math.min(Math.max(now + step, 0), list.length - 1)];
  next.setAttribute("tabindex", "-1");
  next.focus();
  next.scrollIntoView({ block: "nearest" });
}

const current = () => document.activeElement?.closest?.(".hit, [data-item]");
const actions = {
  "/": () => { const ask = document.getElementById("ask"); ask.focus(); ask.select(); },
  j: () => move(1),
  k: () => move(-1),
  Enter: () => {
    if (document.activeElement !== current()) return false;
    current()?.querySelector("a.open, a")?.click();
  },
  w: () => {
    const why = (current() ?? document).querySelector("details.why");
    if (why) why.open = !why.open;
  },
  "[": () => document.querySelector("a[rel=prev]")?.click(),
  "]": () => document.querySelector("a[rel=next]")?.click(),
  "?": () => { location.href = "/help"; },
};

let leading = 0;
document.addEventListener("keydown", (event) => {
  const target = event.target;
  const typing = target.closest?.("input, textarea, select, [contenteditable]");
  if (event.key === "Escape") {
    if (typing) target.blur();
    for (const open of all("details[open].menu, details[open].why")) open.open = false;
    return;
  }
  if (typing || event.ctrlKey || event.metaKey || event.altKey || store.get("keys") === "off") return;
  if (Date.now() - leading < 1200) {
    leading = 0;
    const link = all("[data-key]").find((one) => one.dataset.key === event.key);
    if (link) { event.preventDefault(); link.click(); }
    return;
  }
  if (event.key === "g") { leading = Date.now(); return; }
  // Those of the item that has the focus come first.
  const shortcut = [...all("[data-shortcut]", current() ?? document), ...all("[data-shortcut]")]
    .find((one) => one.dataset.shortcut === event.key);
  if (shortcut) { event.preventDefault(); shortcut.click(); return; }
  const action = actions[event.key];
  if (action && (event.key !== "Enter" || target === current())) {
    if (action() !== false) event.preventDefault();
  }
});

// An observation that is on another page of its session.
const wanted = /^#o(\d+)$/.exec(location.hash);
if (wanted && location.pathname.startsWith("/s/") && !document.getElementById(`o${wanted[1]}`)) {
  const query = new URLSearchParams(location.search);
  if (!query.has("at")) location.replace(`${location.pathname}?at=${wanted[1]}${location.hash}`);
}

// --- Live -------------------------------------------------------------------------------------

// Replace a part of this page by the same part of a page that was fetched; focus stays.
function swap(selector, html) {
  const fresh = new DOMParser().parseFromString(html, "text/html").querySelector(selector);
  const old = document.querySelector(selector);
  if (!fresh || !old) return;
  const focused = old.contains(document.activeElement) ? document.activeElement.id : "";
  const open = all("details[open][id]", old).map((one) => one.id);
  old.replaceWith(fresh);
  for (const id of open) document.getElementById(id)?.setAttribute("open", "");
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  for (const button of all("button.copy", fresh)) button.hidden = !navigator.clipboard;
}

async function refresh(selector) {
  const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
  if (answer.ok) swap(selector, await answer.text());
}

const news = document.querySelector(".news");
let waiting = false;

// A page says with data-live what it is about. A part with data-live-part is replaced as soon as
// something changed; any other page says that there is news, and shows it when it is asked to.
function onChange(changed) {
  const about = (document.body.dataset.live ?? "").split(" ");
  if (!changed.some((one) => about.includes(one))) return;
  if (document.querySelector("[data-live-part]")) {
    if (document.hidden) waiting = true;
    else refresh("[data-live-part]");
    return;
  }
  news.querySelector("p").textContent = "Something here has changed since you opened it.";
  news.hidden = false;
}

news?.querySelector("button").addEventListener("click", () => location.reload());
document.addEventListener("visibilitychange", () => {
  if (!document.hidden && waiting) { waiting = false; refresh("[data-live-part]"); }
});

// One connection for all tabs: the tab that holds the lock listens and passes on what it hears.
if (news && navigator.locks && "BroadcastChannel" in window) {
  const channel = new BroadcastChannel("zapomni-live");
  channel.onmessage = (event) => onChange(event.data);
  navigator.locks.request("zapomni-live", () => new Promise(() => {
    const source = new EventSource("/events");
    source.addEventListener("change", (event) => {
      const changed = JSON.parse(event.data);
      channel.postMessage(changed);
      onChange(changed);
    });
  }));
}
