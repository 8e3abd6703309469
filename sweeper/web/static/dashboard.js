// The page is the server's: this script draws its figures, fetches its `data-fragment` parts
// anew when the study has changed or the address has, and keeps what the reader is doing.
"use strict";

const dark = matchMedia("(prefers-color-scheme: dark)");
const touch = matchMedia("(pointer: coarse)").matches;
const theme = () => (dark.matches ? "dark" : "light");

// ---- figures

async function draw(element) {
  const address = new URL(element.dataset.figure, location);
  if ("stateful" in element.dataset) address.search = location.search;
  address.searchParams.set("theme", theme());
  if (element.dataset.x) address.searchParams.set("x", element.dataset.x);
  const turn = (element.turn = (element.turn ?? 0) + 1);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address.pathname}: ${answer.status}`);
  const figure = await answer.json();
  if (turn !== element.turn) return; // a later drawing has overtaken this one
  const stateful = "stateful" in element.dataset;
  figure.layout.dragmode = touch ? false : stateful ? "select" : "zoom";
  if (stateful) figure.layout.selections = brushed();
  const first = !element.classList.contains("js-plotly-plot");
  await Plotly.react(element, figure.data, figure.layout, {
    responsive: true,
    displaylogo: false,
    modeBarButtonsToRemove: ["lasso2d", "autoScale2d"],
    toImageButtonOptions: { scale: 3, filename: document.title },
  });
  if (first && stateful) connect(element);
}

function brushed() {
  const box = new URLSearchParams(location.search).get("box");
  if (!box) return [];
  const [x0, x1, y0, y1] = box.split(",").map(Number);
  return [{ type: "rect", xref: "x", yref: "y", x0, x1, y0, y1 }];
}

function connect(plot) {
  const row = (point) => document.querySelector(`tr[data-number="${point.customdata?.[0]}"]`);
  plot.on("plotly_click", ({ points: [point] }) => {
    if (point.customdata) location.assign(plot.dataset.trial + point.customdata[0]);
  });
  plot.on("plotly_hover", ({ points: [point] }) => row(point)?.classList.add("lit"));
  plot.on("plotly_unhover", ({ points: [point] }) => row(point)?.classList.remove("lit"));
  plot.on("plotly_selected", (event) => {
    if (!event?.range?.x) return; // not a box in the plane, but in the row above it
    const { x, y } = event.range;
    const rounded = [...x, ...y].map((value) => Number(value.toPrecision(6)));
    go(changed({ box: rounded.join(","), page: null }));
  });
  plot.on("plotly_deselect", () => go(changed({ box: null, page: null })));
}

// A row under the pointer lights up its point.
document.addEventListener("mouseover", ({ target }) => {
  const plot = document.querySelector("[data-stateful].js-plotly-plot");
  if (!plot || plot.contains(target)) return;
  const number = Number(target.closest?.("tr[data-number]")?.dataset.number);
  for (const [curveNumber, trace] of plot.data.entries()) {
    const pointNumber = (trace.customdata ?? []).findIndex(([trial]) => trial === number);
    if (pointNumber >= 0) return Plotly.Fx.hover(plot, [{ curveNumber, pointNumber }]);
  }
  Plotly.Fx.unhover(plot);
});

function drawAll() {
  return Promise.all([...document.querySelectorAll("[data-figure]")].map(draw));
}

// Figures are as wide as the screen asked for; a sheet of paper is narrower.
const PAPER_WIDTH = 640;
const drawn = () => document.querySelectorAll(".js-plotly-plot");
addEventListener("beforeprint", () => {
  for (const plot of drawn()) {
    Plotly.relayout(plot, { width: Math.min(PAPER_WIDTH, plot.offsetWidth) });
  }
});
addEventListener("afterprint", () => {
  for (const plot of drawn()) Plotly.relayout(plot, { width: null, autosize: true });
});

// ---- the address holds the state; its fragments follow it

function changed(values) {
  const address = new URL(location);
  for (const [name, value] of Object.entries(values)) {
    if (value) address.searchParams.set(name, value);
    else address.searchParams.delete(name);
  }
  return address;
}

function go(address) {
  if (String(address) === location.href) return;
  history.replaceState(null, "", address);
  refresh().catch(report);
}

const received = new WeakMap(); // element -> its HTML as the server sent it
let turn = 0;

async function refresh() {
  const mine = ++turn;
  const answer = await fetch(location, { headers: { accept: "text/html" } });
  const page = new DOMParser().parseFromString(await answer.text(), "text/html");
  if (mine !== turn) return;
  if (!answer.ok) throw new Error(page.querySelector(".headline")?.textContent ?? answer.status);
  const focused = document.activeElement?.id;
  for (const part of document.querySelectorAll("[data-fragment]")) {
    const next = page.getElementById(part.id);
    if (!next || received.get(part) === next.innerHTML) continue;
    const scrolled = part.querySelector(".scroll")?.scrollLeft ?? 0;
    received.set(part, next.innerHTML);
    part.replaceChildren(...next.childNodes);
    Object.assign(part.dataset, next.dataset);
    if (scrolled) part.querySelector(".scroll")?.scrollTo({ left: scrolled });
  }
  if (focused) document.getElementById(focused)?.focus({ preventScroll: true });
  await drawAll();
}

document.addEventListener("click", (event) => {
  const link = event.target.closest?.("a[data-soft]");
  if (!link || event.ctrlKey || event.metaKey || event.shiftKey) return;
  event.preventDefault();
  go(new URL(link.href));
});

const controls = document.getElementById("controls");
if (controls) {
  let wait;
  const apply = () => {
    const form = new FormData(controls);
    const address = changed({ x: form.get("x"), y: form.get("y"), filter: form.get("filter") });
    const axes = ["x", "y"].some((axis) => form.get(axis) !== controls.dataset[axis]);
    // A box is in the units of its axes, a page belongs to its filter.
    address.searchParams.delete("page");
    if (axes) address.searchParams.delete("box");
    address.searchParams.delete("log");
    for (const axis of form.getAll("log")) address.searchParams.append("log", axis);
    remember();
    go(address);
  };
  const remember = () => {
    const form = new FormData(controls);
    Object.assign(controls.dataset, { x: form.get("x"), y: form.get("y") });
  };
  remember();
  controls.addEventListener("change", apply);
  controls.addEventListener("submit", (event) => (event.preventDefault(), apply()));
  for (const field of controls.elements) {
    if (field.type === "search") {
      field.addEventListener("input", () => (clearTimeout(wait), (wait = setTimeout(apply, 200))));
    }
  }
}

for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll("[data-axis]")) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    const curve = document.getElementById("curve");
    curve.dataset.x = button.dataset.axis;
    draw(curve).catch(report);
  });
}

// ---- copying

document.addEventListener("click", async ({ target }) => {
  const button = target.closest?.("[data-copy], [data-copy-from]");
  if (!button) return;
  const source = button.dataset.copyFrom && document.querySelector(button.dataset.copyFrom);
  const words = button.textContent;
  try {
    await navigator.clipboard.writeText(source ? source.textContent : button.dataset.copy);
    button.textContent = "copied";
  } catch {
    // Browsers give the clipboard to secure origins only: select it for the reader instead.
    if (source) getSelection().selectAllChildren(source);
    button.textContent = source ? "selected: press Ctrl+C" : button.dataset.copy;
  }
  setTimeout(() => (button.textContent = words), 2000);
});

document.getElementById("sql")?.addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) event.target.form.requestSubmit();
});

// ---- live

const live = document.getElementById("live");

function show(state, words = state) {
  live.dataset.state = state;
  if (live.textContent !== words) live.textContent = words;
}

function listen(attempt = 0) {
  const source = new EventSource(document.body.dataset.live);
  source.addEventListener("change", ({ data }) => {
    attempt = 0;
    show("live");
    const shown = document.getElementById("headline");
    if (data !== shown.dataset.token) refresh().catch(report);
  });
  source.onerror = () => {
    source.close();
    const seconds = Math.min(30, 2 ** attempt);
    show("reconnecting", `reconnecting in ${seconds} s`);
    // Spread, so that many open pages do not return at the same moment.
    setTimeout(() => listen(attempt + 1), 1000 * seconds * (0.75 + Math.random() / 2));
  };
  addEventListener("pagehide", () => source.close(), { once: true });
}

function report(error) {
  if (live) show("reconnecting", String(error.message ?? error));
}

for (const part of document.querySelectorAll("[data-fragment]")) received.set(part, part.innerHTML);
drawAll().catch(report);
dark.addEventListener("change", () => drawAll().catch(report));
if (live) listen();
