// Pan, zoom, drag and expand the drawing of a graph. The links and the table work without it.
"use strict";

const still = matchMedia("(prefers-reduced-motion: reduce)");

function make(tag, text, properties = {}) {
  const made = Object.assign(document.createElement(tag), properties);
  if (text) made.textContent = text;
  return made;
}

function openGraph(stage) {
  const svg = stage.querySelector("svg.graph");
  const panel = document.getElementById("pointed");
  const isServed = !("file" in stage.dataset);  // a file has no other pages
  const hint = panel?.firstElementChild;
  const nodes = all(".node", svg);
  const edges = all(".edge", svg);
  const whole = svg.viewBox.baseVal;
  const full = { x: 0, y: 0, w: whole.width, h: whole.height };
  const places = nodes.map((node) => {
    const { e, f } = node.transform.baseVal[0].matrix;
    return { x: e, y: f };
  });
  let view = { ...full };
  let chosen = null;

  // --- What is seen -------------------------------------------------------------------------

  function look(next) {
    view = next;
    svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.w} ${view.h}`);
    svg.classList.toggle("close", svg.clientWidth / view.w > 1.25);
  }

  // A point of the window as a point of the drawing.
  function toDrawing(event) {
    const point = new DOMPoint(event.clientX, event.clientY);
    return point.matrixTransform(svg.getScreenCTM().inverse());
  }

  function zoom(factor, at = { x: view.x + view.w / 2, y: view.y + view.h / 2 }) {
    const w = Math.min(Math.max(view.w * factor, 120), full.w * 3);
    const by = w / view.w;
    look({ x: at.x - (at.x - view.x) * by, y: at.y - (at.y - view.y) * by, w, h: view.h * by });
  }

  // All of it, or as much as can be read: then around its middle.
  function fit() {
    const [least, most] = [svg.clientWidth < 500 ? 0.75 : 0.62, 1.4];
    const scale = Math.min(svg.clientWidth / full.w, svg.clientHeight / full.h);
    if (scale >= least && scale <= most) { look({ ...full }); return; }
    const w = svg.clientWidth / (scale < least ? least : most);
    const h = svg.clientHeight / (scale < least ? least : most);
    if (scale > most) { look({ x: (full.w - w) / 2, y: (full.h - h) / 2, w, h }); return; }
    const middle = nodes.findIndex((node) => node.classList.contains("center"));
    const at = places[Math.max(middle, 0)] ?? { x: full.w / 2, y: full.h / 2 };
    const within = (value, size, most) => Math.min(Math.max(value, 0), Math.max(0, most - size));
    look({ x: within(at.x - w / 2, w, full.w), y: within(at.y - h / 2, h, full.h), w, h });
  }

  // --- What is pointed at -------------------------------------------------------------------

  const ends = (edge) => [Number(edge.dataset.a), Number(edge.dataset.b)];

  function sentences(list, items) {
    for (const edge of items) {
      const [title, said] = edge.querySelector("title").textContent.split("\n");
      const item = make("li");
      item.append(make("strong", title));
      if (said) item.append(make("blockquote", said));
      list.append(item);
    }
  }

  function pointAt(node, edge) {
    const number = nodes.indexOf(node);
    const near = edge ? [edge] : edges.filter((one) => ends(one).includes(number));
    const shown = new Set(near.flatMap(ends));
    svg.classList.add("pointing");
    nodes.forEach((one, i) => {
      one.classList.toggle("near", shown.has(i) || i === number);
      one.classList.toggle("chosen", one === node && node === chosen);
    });
    edges.forEach((one) => one.classList.toggle("near", near.includes(one)));
    if (!panel) return;
    const list = make("ul");
    sentences(list, [...near].reverse());
    if (!node) { panel.replaceChildren(list); return; }
    const about = make("p", "", { className: "about" });
    const times = Number(node.dataset.mentions);
    about.append(make("span", node.dataset.kind));
    if (times) about.append(make("span", `${times} mention${times === 1 ? "" : "s"}`));
    const open = times ? "around it" : "open it";
    about.append(make("a", isServed ? open : "in the table", { href: node.href.baseVal }));
    const wider = new URL(location.href);
    if (isServed && wider.searchParams.get("entity") && !node.classList.contains("center")) {
      wider.searchParams.append("open", node.dataset.id);
      about.append(make("a", "add what it is related to", { href: wider.href, className: "expand" }));
    }
    const name = node.querySelector("text").textContent;
    if (isServed && times) {
      about.append(make("a", "memories", { href: `/search?q=${encodeURIComponent(name)}` }));
    }
    panel.replaceChildren(make("h2", name), about, list);
  }

  function leave() {
    if (chosen) { pointAt(chosen); return; }
    svg.classList.remove("pointing");
    for (const one of [...nodes, ...edges]) one.classList.remove("near", "chosen");
    if (panel) panel.replaceChildren(hint);
  }

  // The line under the pointer, or within a few points of it: lines are thin.
  function edgeAt(event) {
    const at = toDrawing(event);
    const reach = (6 * view.w) / svg.clientWidth;
    let best = null;
    let least = reach;
    for (const edge of edges) {
      const [a, b] = ends(edge).map((i) => places[i]);
      const dx = b.x - a.x;
      const dy = b.y - a.y;
      const along = ((at.x - a.x) * dx + (at.y - a.y) * dy) / (dx * dx + dy * dy || 1);
      if (along < 0 || along > 1) continue;
      const away = Math.hypot(at.x - a.x - along * dx, at.y - a.y - along * dy);
      if (away < least) { best = edge; least = away; }
    }
    return best;
  }

  // --- Moving -------------------------------------------------------------------------------

  function put(number, x, y) {
    places[number] = { x, y };
    nodes[number].setAttribute("transform", `translate(${x} ${y})`);
    for (const edge of edges) {
      const [a, b] = ends(edge);
      if (a === number) { edge.setAttribute("x1", x); edge.setAttribute("y1", y); }
      if (b === number) { edge.setAttribute("x2", x); edge.setAttribute("y2", y); }
    }
  }

  let held = null;
  svg.addEventListener("pointerdown", (event) => {
    if (event.button !== 0) return;
    const node = event.target.closest(".node");
    held = { node, at: toDrawing(event), from: [event.clientX, event.clientY], moved: false };
  });
  svg.addEventListener("pointermove", (event) => {
    if (!held) {
      const node = event.target.closest(".node");
      const edge = node ? null : edgeAt(event);
      if (node || edge) pointAt(node, edge);
      else if (svg.classList.contains("pointing")) leave();
      return;
    }
    const [x, y] = held.from;
    if (!held.moved && Math.hypot(event.clientX - x, event.clientY - y) < 4) return;
    if (!held.moved) { svg.setPointerCapture(event.pointerId); svg.classList.add("held"); }
    held.moved = true;
    const to = toDrawing(event);
    if (held.node) put(nodes.indexOf(held.node), Math.round(to.x), Math.round(to.y));
    else look({ ...view, x: view.x - (to.x - held.at.x), y: view.y - (to.y - held.at.y) });
  });
  const drop = () => {
    svg.classList.remove("held");
    setTimeout(() => { held = null; });
  };
  svg.addEventListener("pointerup", drop);
  svg.addEventListener("pointercancel", drop);
  svg.addEventListener("pointerleave", () => { if (!held) leave(); });
  svg.addEventListener("dragstart", (event) => event.preventDefault());
  svg.addEventListener("focusin", (event) => {
    const node = event.target.closest(".node");
    if (!node?.matches(":focus-visible")) return;
    pointAt(node);
    const at = places[nodes.indexOf(node)];
    const isSeen = at.x > view.x && at.x < view.x + view.w && at.y > view.y && at.y < view.y + view.h;
    if (!isSeen) look({ ...view, x: at.x - view.w / 2, y: at.y - view.h / 2 });
  });
  // The first press chooses a name, the second one opens it.
  svg.addEventListener("click", (event) => {
    const node = event.target.closest(".node");
    if (held?.moved || (node && node !== chosen)) event.preventDefault();
    if (held?.moved) return;
    if (node && node === chosen) return;
    chosen = node;
    leave();
  });
  svg.addEventListener("wheel", (event) => {
    if (!event.ctrlKey && !event.metaKey) return;  // otherwise the page scrolls
    event.preventDefault();
    zoom(Math.exp(event.deltaY / 300), toDrawing(event));
  }, { passive: false });
  stage.addEventListener("keydown", (event) => {
    if (event.target !== stage) return;
    const step = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (step) look({ ...view, x: view.x + (step[0] * view.w) / 10, y: view.y + (step[1] * view.h) / 10 });
    else if (event.key === "+" || event.key === "=") zoom(0.8);
    else if (event.key === "-") zoom(1.25);
    else if (event.key === "0") look({ ...full });
    else return;
    event.preventDefault();
  });
  for (const button of all("[data-zoom]", stage)) {
    button.addEventListener("click", () => {
      if (button.dataset.zoom === "all") look({ ...full });
      else zoom(button.dataset.zoom === "in" ? 0.75 : 1.33);
    });
  }

  // Those that were there before come from where they were.
  function comeFrom(before) {
    const goals = places.map((place) => ({ ...place }));
    const starts = nodes.map((node, i) => before.get(node.dataset.id) ?? goals[i]);
    const began = performance.now();
    const step = (now) => {
      const part = Math.min(1, Math.max(0, (now - began) / 450));
      const eased = 1 - (1 - part) ** 3;
      goals.forEach((goal, i) => put(
        i, starts[i].x + (goal.x - starts[i].x) * eased, starts[i].y + (goal.y - starts[i].y) * eased,
      ));
      if (part < 1) requestAnimationFrame(step);
    };
    if (!still.matches) requestAnimationFrame(step);
  }

  stage.classList.add("moves");
  stage.querySelector(".zoom").hidden = false;
  fit();
  return { comeFrom, where: () => new Map(nodes.map((node, i) => [node.dataset.id, places[i]])) };
}

let opened = null;
let seen = location.search;  // what is shown is of this address, wherever in the page one goes
function begin() {
  const stage = document.querySelector(".stage");
  if (stage) opened = openGraph(stage);
}
begin();

// Expanding fetches the wider view, and moves there from what is seen.
document.addEventListener("click", async (event) => {
  const link = event.target.closest?.("a.expand");
  if (!link || event.ctrlKey || event.metaKey) return;
  event.preventDefault();
  const answer = await fetch(link.href, { headers: { Accept: "text/html" } });
  if (!answer.ok) { location.href = link.href; return; }
  const before = opened.where();
  swap("#main", await answer.text());
  history.pushState(null, "", link.href);
  seen = location.search;
  begin();
  opened?.comeFrom(before);
  watchSlider();
});
addEventListener("popstate", () => { if (location.search !== seen) location.reload(); });

// The slider sets the date; letting it go shows that day.
function watchSlider() {
  const slider = document.getElementById("slider");
  if (!slider) return;
  const date = document.getElementById("as_of");
  slider.closest(".slide").hidden = false;
  slider.addEventListener("input", () => {
    const day = new Date(Number(slider.value) * 86400000).toISOString().slice(0, 10);
    date.value = slider.value === slider.max ? "" : day;
  });
  slider.addEventListener("change", () => slider.form.requestSubmit());
}
watchSlider();
