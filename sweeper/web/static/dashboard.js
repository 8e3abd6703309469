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
  for (const axis of ["x", "y"]) {
    if (element.dataset[axis]) address.searchParams.set(axis, element.dataset[axis]);
  }
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
  else if (first && element.dataset.trial) openOnClick(element);
  if (element.id === "anytime") showMoment();
}

function openOnClick(plot) {
  plot.on("plotly_click", ({ points: [point] }) => {
    if (point.customdata) location.assign(plot.dataset.trial + point.customdata[0]);
  });
}

function brushed() {
  const box = new URLSearchParams(location.search).get("box");
  if (!box) return [];
  const [x0, x1, y0, y1] = box.split(",").map(Number);
  return [{ type: "rect", xref: "x", yref: "y", x0, x1, y0, y1 }];
}

function connect(plot) {
  const row = (point) => document.querySelector(`tr[data-number="${point.customdata?.[0]}"]`);
  openOnClick(plot);
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
  for (const lit of document.querySelectorAll(".parallel .lit")) lit.classList.remove("lit");
  document.querySelector(`.parallel path[data-line="${number}"]`)?.classList.add("lit");
  for (const [curveNumber, trace] of plot.data.entries()) {
    const pointNumber = (trace.customdata ?? []).findIndex(([trial]) => trial === number);
    if (pointNumber >= 0) return Plotly.Fx.hover(plot, [{ curveNumber, pointNumber }]);
  }
  Plotly.Fx.unhover(plot);
});

// One after the other, from the top: what is read first is there first.
async function drawAll() {
  for (const element of document.querySelectorAll("[data-figure], [data-parallel]")) {
    await (element.dataset.parallel ? drawParallel(element) : draw(element));
  }
}

// ---- the slider of the anytime front

const moment = document.getElementById("moment");
moment?.addEventListener("input", showMoment);

function showMoment() {
  const plot = document.getElementById("anytime");
  const line = plot.data?.[0];
  const words = document.getElementById("then");
  moment.disabled = !line?.x?.length;
  if (moment.disabled) return;
  moment.max = line.x.length - 1;
  const i = Number(moment.value);
  const number = line.customdata[i][0];
  const seconds = `${Number(line.x[i].toPrecision(3))} s`;
  moment.setAttribute("aria-valuetext", seconds);
  words.replaceChildren(`${seconds}: `);
  if (number === null) {
    words.append("no episode had ended by then");
  } else {
    const link = document.createElement("a");
    link.href = plot.dataset.trial + number;
    link.textContent = `trial ${number}`;
    words.append(link, ` leads with a return of ${Number(line.y[i].toPrecision(3))}`);
  }
  const color = getComputedStyle(document.body).getPropertyValue("--muted");
  Plotly.relayout(plot, {
    shapes: [
      { type: "line", x0: line.x[i], x1: line.x[i], y0: 0, y1: 1, yref: "paper", line: { width: 1, color } },
    ],
  });
}

// ---- parallel coordinates (plotly.js's own need `eval`, which the page's policy forbids)

const SVG = "http://www.w3.org/2000/svg";

function svg(name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  return element;
}

async function drawParallel(element) {
  const address = new URL(element.dataset.parallel, location);
  address.search = location.search;
  const turn = (element.turn = (element.turn ?? 0) + 1);
  const answer = await fetch(address);
  if (!answer.ok) throw new Error(`${address.pathname}: ${answer.status}`);
  const record = await answer.json();
  if (turn !== element.turn) return;
  element.record = record;
  layParallel(element);
}

function layParallel(element) {
  const { axes, lines, n_trials } = element.record;
  if (!lines.length) {
    element.textContent = "No trial has completed yet.";
    return;
  }
  const [top, bottom, side] = [34, 12, 56];
  const width = Math.max(element.clientWidth, 2 * side + 84 * (axes.length - 1));
  const height = element.clientHeight || 300;
  const x = (i) => side + ((width - 2 * side) * i) / Math.max(1, axes.length - 1);
  const y = (position) => top + (height - top - bottom) * (1 - position);
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  for (const line of lines) {
    let d = "";
    let broken = true;
    line.positions.forEach((position, i) => {
      if (position !== null) d += `${broken ? "M" : "L"}${x(i).toFixed(1)} ${y(position).toFixed(1)}`;
      broken = position === null;
    });
    const kind = line.chosen ? (line.front ? "front" : "chosen") : "rest";
    const path = svg("path", { d, class: kind, "data-line": line.number });
    path.append(svg("title", {}, `trial ${line.number}`));
    picture.append(path);
  }
  axes.forEach((axis, i) => {
    const group = svg("g", { class: "rail", transform: `translate(${x(i)} 0)` });
    group.append(svg("line", { y1: y(1), y2: y(0) }));
    for (const [position, label] of axis.ticks) {
      group.append(svg("text", { x: -5, y: y(position) + 4, "text-anchor": "end" }, label));
    }
    // Neighbours' names stand on two levels, so that long ones do not touch.
    const name = svg("text", { x: 0, y: i % 2 ? 12 : 26, "text-anchor": "middle", class: "name" }, axis.title);
    name.append(svg("title", {}, `${axis.key}: click to clear its filter`));
    name.addEventListener("click", () => filterAxis(axis, null));
    const reach = svg("rect", { x: -12, width: 24, y: y(1) - 6, height: y(0) - y(1) + 12, class: "reach" });
    const brush = svg("rect", { x: -7, width: 14, class: "brush" });
    group.append(name, brush, reach);
    picture.append(group);
    const at = (event) => {
      const box = picture.getBoundingClientRect();
      const down = ((event.clientY - box.top) / box.height) * height;
      return Math.min(1, Math.max(0, 1 - (down - top) / (height - top - bottom)));
    };
    let from = null;
    reach.addEventListener("pointerdown", (event) => {
      from = at(event);
      reach.setPointerCapture(event.pointerId);
    });
    reach.addEventListener("pointermove", (event) => {
      if (from === null) return;
      const to = at(event);
      brush.setAttribute("y", y(Math.max(from, to)));
      brush.setAttribute("height", y(Math.min(from, to)) - y(Math.max(from, to)));
    });
    reach.addEventListener("pointerup", (event) => {
      const to = at(event);
      const range = [Math.min(from, to), Math.max(from, to)];
      from = null;
      if (range[1] - range[0] > 0.01) filterAxis(axis, range);
    });
  });
  element.replaceChildren(picture);
  const matching = lines.filter((line) => line.chosen).length;
  element.dataset.drawn = `${matching} of ${lines.length} lines, ${n_trials} trials`;
}

// A range of an axis becomes terms of the table's filter, in place of earlier ones on that axis.
function filterAxis(axis, range) {
  const field = document.querySelector('input[name="filter"]');
  const kept = field.value.split(/\s+/).filter((term) => term && term.split(/[<>=!]/)[0] !== axis.key);
  if (range) {
    if (axis.low === null) {
      const within = axis.ticks.filter(([position]) => position >= range[0] && position <= range[1]);
      const without = axis.ticks.filter((tick) => !within.includes(tick));
      const word = (tick) => tick[1].replaceAll(" ", "_");
      if (within.length === 1) kept.push(`${axis.key}=${word(within[0])}`);
      else if (within.length) kept.push(...without.map((tick) => `${axis.key}!=${word(tick)}`));
    } else {
      const span = axis.log ? Math.log(axis.high / axis.low) : axis.high - axis.low;
      const value = (p) => (axis.log ? axis.low * Math.exp(span * p) : axis.low + span * p);
      if (range[0] > 0) kept.push(`${axis.key}>=${Number(value(range[0]).toPrecision(4))}`);
      if (range[1] < 1) kept.push(`${axis.key}<=${Number(value(range[1]).toPrecision(4))}`);
    }
  }
  field.value = kept.join(" ");
  go(changed({ filter: field.value, page: null }));
}

const parallel = document.querySelector("[data-parallel]");
if (parallel) {
  new ResizeObserver(() => parallel.record && layParallel(parallel)).observe(parallel);
  parallel.addEventListener("click", ({ target }) => {
    const number = target.dataset?.line;
    if (number) location.assign(`${location.pathname.replace(/\/$/, "")}/trial/${number}`);
  });
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
  tellAges();
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

// ---- what is selected to be compared, and which columns are shown: both live in the address

document.addEventListener("change", ({ target }) => {
  if (target.name === "trials") {
    const selected = new Set((changed({}).searchParams.get("selected") ?? "").split(",").filter(Boolean));
    selected[target.checked ? "add" : "delete"](target.value);
    history.replaceState(null, "", changed({ selected: [...selected].join(",") }));
  } else if (target.dataset?.column) {
    const boxes = [...document.querySelectorAll("[data-column]")];
    const keys = boxes.filter((box) => box.checked).map((box) => box.dataset.column);
    go(changed({ columns: keys.join(",") }));
  }
});

document.getElementById("usual-columns")?.addEventListener("click", () => {
  const address = changed({ columns: null });
  if (String(address) !== location.href) location.assign(address);
});

document.getElementById("compare")?.addEventListener("submit", (event) => {
  // The marks of other pages of the table are in the address alone.
  const selected = new URLSearchParams(location.search).get("selected") ?? "";
  event.preventDefault();
  const count = selected.split(",").filter(Boolean).length;
  if (count < 2 || count > 6) {
    const button = event.target.querySelector("button");
    button.textContent = `select 2 to 6 trials in the table (${count} are)`;
    setTimeout(() => (button.textContent = "compare selected"), 3000);
    return;
  }
  location.assign(`${event.target.action}?trials=${selected}`);
});

document.getElementById("quantity")?.addEventListener("change", ({ target }) => {
  const curve = document.getElementById("curve");
  curve.dataset.y = target.value;
  draw(curve).catch(report);
});

for (const button of document.querySelectorAll("[data-axis]")) {
  button.addEventListener("click", () => {
    for (const other of document.querySelectorAll(`[data-axis][data-of="${button.dataset.of}"]`)) {
      other.setAttribute("aria-pressed", String(other === button));
    }
    const figure = document.getElementById(button.dataset.of);
    figure.dataset.x = button.dataset.axis;
    draw(figure).catch(report);
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

// ---- how long ago: UTC stands in the page, the rest is the reader's clock

function tellAges() {
  for (const time of document.querySelectorAll("time[datetime]")) {
    const seconds = Math.max(0, (Date.now() - Date.parse(time.dateTime)) / 1000);
    const [unit, size] = [["d", 86400], ["h", 3600], ["min", 60]].find(([, s]) => seconds >= s) ?? ["s", 1];
    const age = time.querySelector(".unit") ?? time.appendChild(document.createElement("span"));
    age.className = "unit";
    age.textContent = ` ${Math.floor(seconds / size)} ${unit} ago`;
  }
}
tellAges();
setInterval(tellAges, 10_000);

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
