// DATA: {texts, numbers: [number of the text, from 1], clusters: [number], typical: [[words]], middles: [text],
// views: [{name, points: [[x, y]], nearest: [[text]], cosines: [[number]]}], measures: [{name, uniformity, alignment or
// null, means: {series: cosine}}], histograms: null or {edges, models: [{series: [share]}]}, notes: [line], colors}
// A "text" is a place in texts.
const WIDTH = 680, HEIGHT = 560, EDGE = 18, MOST_LISTED = 50, REACH = 12;
const state = { view: DATA.views.length - 1, chosen: null, pointed: null, query: "", zoom: 1, left: 0, top: 0 };
const COLOR_OF = DATA.clusters.map((cluster) => DATA.colors[cluster % DATA.colors.length]);
const LOWER = DATA.texts.map((text) => text.toLowerCase());
const MATCHES = DATA.texts.map(() => true);
const view = () => DATA.views[state.view];
const named = (text) => text.trim() || "(empty text)";

// The places of the points of each view in the map before zooming, with the same factor in both directions.
const PLACES = DATA.views.map(({ points }) => {
  const ends = [0, 1].map((axis) => points.reduce(([low, high], point) =>
    [Math.min(low, point[axis]), Math.max(high, point[axis])], [Infinity, -Infinity]));
  const sides = ends.map(([low, high]) => high - low);
  const room = [WIDTH - 2 * EDGE, HEIGHT - 2 * EDGE];
  const factor = Math.min(...room.map((length, axis) => length / Math.max(sides[axis], 1e-6)));
  return points.map(([x, y]) => [WIDTH / 2 + (x - ends[0][0] - sides[0] / 2) * factor,
    HEIGHT / 2 + (y - ends[1][0] - sides[1] / 2) * factor]);
});
const place = (index) => {
  const [x, y] = PLACES[state.view][index];
  return [(x - state.left) * state.zoom, (y - state.top) * state.zoom];
};

const canvas = element("canvas", { tabindex: 0, role: "application", style: `width:${WIDTH}px;height:${HEIGHT}px`,
  "aria-label": "Map of the texts. Arrow keys move to the next text in a direction, Enter chooses it, plus and minus "
    + "zoom, 0 shows all. The lists beside the map hold the same texts." });
const RATIO = Math.min(window.devicePixelRatio || 1, 3);
canvas.width = WIDTH * RATIO;
canvas.height = HEIGHT * RATIO;
const tip = element("div", { class: "tip", hidden: "" });
const pointed = element("p", { class: "soft", role: "status", style: "min-height:2.8em;margin-top:.5rem" });
const reading = element("section", { class: "panel reading" });

function circle(context, index, radius) {
  const [x, y] = place(index);
  context.beginPath();
  context.arc(x, y, radius, 0, 2 * Math.PI);
}

function paint() {
  const context = canvas.getContext("2d"), style = getComputedStyle(document.documentElement);
  context.setTransform(RATIO, 0, 0, RATIO, 0, 0);
  context.clearRect(0, 0, WIDTH, HEIGHT);
  const radius = Math.max(2.5, Math.min(6, 90 / Math.sqrt(DATA.texts.length))) * Math.min(2, Math.sqrt(state.zoom));
  const near = state.chosen === null ? [] : view().nearest[state.chosen];
  for (const isMatch of [false, true]) {  // the matches lie on top
    context.globalAlpha = isMatch ? 0.8 : 0.12;
    DATA.texts.forEach((_, index) => {
      if (MATCHES[index] !== isMatch) return;
      context.fillStyle = COLOR_OF[index];
      circle(context, index, radius);
      context.fill();
    });
  }
  context.globalAlpha = 1;
  context.strokeStyle = style.getPropertyValue("--near");
  context.lineWidth = 1;
  for (const index of near) {
    context.beginPath();
    context.moveTo(...place(state.chosen));
    context.lineTo(...place(index));
    context.globalAlpha = 0.35;
    context.stroke();
    context.globalAlpha = 1;
    context.fillStyle = COLOR_OF[index];
    circle(context, index, radius + 1.5);
    context.fill();
    context.stroke();
  }
  for (const [index, larger] of [[state.pointed, 2], [state.chosen, 4]]) {
    if (index === null) continue;
    context.fillStyle = COLOR_OF[index];
    context.lineWidth = 2.5;
    circle(context, index, radius + larger);
    context.fill();
    context.stroke();
  }
}

let isDue = false;
function repaint() {
  if (isDue) return;
  isDue = true;
  requestAnimationFrame(() => { isDue = false; paint(); });
}

// The matching text nearest to a place of the map, or null if none is within reach.
function at(x, y, reach) {
  let best = null, least = reach * reach;
  DATA.texts.forEach((_, index) => {
    if (!MATCHES[index]) return;
    const [px, py] = place(index), distance = (px - x) ** 2 + (py - y) ** 2;
    if (distance <= least) [best, least] = [index, distance];
  });
  return best;
}

function point(index) {
  state.pointed = index;
  tip.hidden = index === null;
  if (index !== null) {
    const [x, y] = place(index), text = named(DATA.texts[index]);
    tip.textContent = text.length > 240 ? `${text.slice(0, 240)}…` : text;
    tip.style.left = `${Math.max(0, Math.min(x + 12, WIDTH - 250))}px`;
    tip.style.top = `${Math.max(0, Math.min(y + 12, HEIGHT - 40))}px`;
    pointed.textContent = `Text ${DATA.numbers[index].toLocaleString("en")}: ${tip.textContent}`;
  }
  repaint();
}

function choose(index) {
  state.chosen = index;
  if (index !== null) point(index);
  tip.hidden = true;
  read();
  repaint();
}

const wordsOf = (query) => query.toLowerCase().split(/\s+/).filter((word) => word);

function search(query) {
  state.query = query;
  const words = wordsOf(query);
  LOWER.forEach((text, index) => { MATCHES[index] = words.every((word) => text.includes(word)); });
  point(null);
  read();
}

function zoom(factor, x = WIDTH / 2, y = HEIGHT / 2) {
  const next = Math.max(1, Math.min(60, state.zoom * factor));
  // The point of the map below (x, y) stays there.
  move(state.left + x / state.zoom - x / next, state.top + y / state.zoom - y / next, next);
}

function move(left, top, next = state.zoom) {
  state.zoom = next;
  state.left = Math.max(0, Math.min(WIDTH - WIDTH / next, left));
  state.top = Math.max(0, Math.min(HEIGHT - HEIGHT / next, top));
  tip.hidden = true;
  repaint();
}

// Moves to the nearest matching text in a direction; distances across the direction count double.
function step([dx, dy]) {
  const from = state.pointed ?? state.chosen;
  if (from === null) {
    point(at(WIDTH / 2, HEIGHT / 2, Infinity));
    return;
  }
  const [x, y] = place(from);
  let best = null, least = Infinity;
  DATA.texts.forEach((_, index) => {
    if (!MATCHES[index] || index === from) return;
    const [px, py] = place(index), along = (px - x) * dx + (py - y) * dy;
    const cost = along + 2 * Math.abs((px - x) * dy - (py - y) * dx);
    if (along > 0 && cost < least) [best, least] = [index, cost];
  });
  if (best === null) return;
  point(best);
  const [px, py] = place(best);
  if (px < 0 || py < 0 || px > WIDTH || py > HEIGHT) {
    move(state.left + (px - WIDTH / 2) / state.zoom, state.top + (py - HEIGHT / 2) / state.zoom);
    point(best);
  }
}

const DIRECTIONS = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] };
const KEYS = { "+": () => zoom(1.5), "=": () => zoom(1.5), "-": () => zoom(1 / 1.5), "0": () => move(0, 0, 1),
  Enter: () => state.pointed !== null && choose(state.pointed), Escape: () => choose(null) };
canvas.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  const action = DIRECTIONS[event.key] ? () => step(DIRECTIONS[event.key]) : KEYS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});

let drag = null;
canvas.addEventListener("pointerdown", (event) => {
  canvas.setPointerCapture(event.pointerId);
  drag = { x: event.offsetX, y: event.offsetY, left: state.left, top: state.top, hasMoved: false };
});
canvas.addEventListener("pointermove", (event) => {
  if (!drag) {
    point(at(event.offsetX, event.offsetY, REACH));
    return;
  }
  const [dx, dy] = [event.offsetX - drag.x, event.offsetY - drag.y];
  drag.hasMoved ||= Math.hypot(dx, dy) > 4;
  if (drag.hasMoved) move(drag.left - dx / state.zoom, drag.top - dy / state.zoom);
});
canvas.addEventListener("pointerup", (event) => {
  if (drag && !drag.hasMoved) choose(at(event.offsetX, event.offsetY, REACH));
  drag = null;
});
canvas.addEventListener("pointercancel", () => { drag = null; });
canvas.addEventListener("pointerleave", () => { if (!drag) point(null); });
canvas.addEventListener("wheel", (event) => {
  event.preventDefault();
  zoom(Math.exp(-event.deltaY / 300), event.offsetX, event.offsetY);
}, { passive: false });
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", repaint);

const dot = (index) => element("span", { class: "dot", style: `background:${COLOR_OF[index]}` });

// The text with the searched words marked.
function marked(text) {
  const parts = [], lower = text.toLowerCase(), words = wordsOf(state.query);
  let start = 0;
  // Lower case may change the length of a text. Then no place in it is certain.
  while (lower.length === text.length) {
    const places = words.map((word) => [lower.indexOf(word, start), word.length]).filter(([place]) => place >= 0);
    if (!places.length) break;
    const [found, length] = places.sort((a, b) => a[0] - b[0] || b[1] - a[1])[0];
    parts.push(text.slice(start, found), element("mark", {}, text.slice(found, found + length)));
    start = found + length;
  }
  return [...parts, text.slice(start)];
}

const button = (index) => element("button", { class: "text", type: "button", onclick: () => choose(index),
  onfocus: () => { state.pointed = index; repaint(); }, onmouseenter: () => { state.pointed = index; repaint(); } },
  dot(index), ...marked(named(DATA.texts[index])));

function nearest() {
  if (state.chosen === null) {
    return [element("p", { class: "soft" }, "Point at a dot to read its text. Click it to see the nearest texts.")];
  }
  const texts = view().nearest[state.chosen], cosines = view().cosines[state.chosen];
  return [element("h2", {}, `Text ${DATA.numbers[state.chosen].toLocaleString("en")}`),
    element("p", { class: "chosen" }, dot(state.chosen), ...marked(named(DATA.texts[state.chosen]))),
    element("h2", {}, `Nearest texts, by cosine${DATA.views.length > 1 ? ` (${view().name})` : ""}`),
    element("ol", { class: "nearest" }, ...texts.map((index, rank) => element("li", {},
      element("span", { class: "cosine" }, cosines[rank].toFixed(3)), button(index))))];
}

function matches() {
  if (!state.query) return [];
  const found = MATCHES.flatMap((isMatch, index) => isMatch ? [index] : []);
  const more = found.length > MOST_LISTED ? `; the first ${MOST_LISTED} are listed` : "";
  return [element("h2", { role: "status" }, `${found.length.toLocaleString("en")} texts with “${state.query}”${more}`),
    element("ol", { class: "matches" },
      ...found.slice(0, MOST_LISTED).map((index) => element("li", {}, button(index))))];
}

function clusters() {
  const sizes = DATA.typical.map((_, cluster) => DATA.clusters.filter((one) => one === cluster).length);
  const style = "margin-bottom:.6rem";
  return [element("h2", {}, "Clusters"), ...DATA.typical.map((words, cluster) => element("div", { style },
    element("div", {}, dot(DATA.middles[cluster]), element("b", {}, `${sizes[cluster].toLocaleString("en")} texts`),
      words.length ? `: ${words.join(", ")}` : ""),
    element("div", { class: "soft" }, "Central: ", element("button", { class: "text", type: "button",
      onclick: () => choose(DATA.middles[cluster]) }, shortened(named(DATA.texts[DATA.middles[cluster]]), 140)))))];
}

const shortened = (text, most) => text.length > most ? `${text.slice(0, most)}…` : text;

function read() {
  // A new list would drop the focus of the button that was pressed.
  const hadFocus = reading.contains(document.activeElement);
  reading.replaceChildren(...matches(), ...nearest(), ...clusters());
  reading.scrollTop = 0;
  if (hadFocus) reading.querySelector(".nearest button, .matches button")?.focus({ preventScroll: true });
}

const SERIES_COLORS = ["#0b8a6e", "#cc3311", "#ee7733"];
const BAR_WIDTH = 440, BAR_HEIGHT = 190;

function histogram(number) {
  const { edges, models } = DATA.histograms, series = Object.entries(models[number]);
  const highest = Math.max(...models.flatMap((model) => Object.values(model).flat()));
  const x = (value) => 16 + (BAR_WIDTH - 32) * (value - edges[0]) / (edges[edges.length - 1] - edges[0]);
  const y = (share) => BAR_HEIGHT - 24 - (BAR_HEIGHT - 44) * share / highest;
  const picture = element("svg:svg", { width: BAR_WIDTH, height: BAR_HEIGHT, role: "img", "aria-label":
    `Histogram of cosines, ${DATA.views[number].name}: mean ` + Object.entries(DATA.measures[number].means)
      .map(([name, mean]) => `${mean.toFixed(3)} of ${name}`).join(", ") });
  series.forEach(([name, shares], at) => {
    shares.forEach((share, bin) => share > 0 && picture.append(element("svg:rect", { x: x(edges[bin]), y: y(share),
      width: x(edges[bin + 1]) - x(edges[bin]), height: y(0) - y(share), fill: SERIES_COLORS[at], "fill-opacity": 0.5 },
      element("svg:title", {},
        `${name}: ${percent(share)} from ${edges[bin].toFixed(2)} to ${edges[bin + 1].toFixed(2)}`))));
    picture.append(element("svg:rect", { x: 12 + 140 * at, y: 3, width: 10, height: 10, fill: SERIES_COLORS[at] }),
      element("svg:text", { x: 26 + 140 * at, y: 12 }, name));
  });
  picture.append(element("svg:line", { x1: 10, x2: BAR_WIDTH - 10, y1: y(0), y2: y(0), stroke: "var(--soft)" }));
  const range = edges[edges.length - 1] - edges[0], step = range > 0.75 ? 0.25 : range > 0.3 ? 0.1 : 0.05;
  for (let value = Math.ceil(edges[0] / step - 1e-6) * step; value <= edges[edges.length - 1] + 1e-6; value += step) {
    picture.append(element("svg:text", { x: x(value), y: BAR_HEIGHT - 8, "text-anchor": "middle" }, value.toFixed(2)));
  }
  return element("section", { class: "panel" }, element("h2", {}, `Cosines: ${DATA.views[number].name}`), picture);
}

function numbers() {
  const means = Object.keys(DATA.measures[0].means), hasPairs = means.length > 0;
  const cells = (kind, values) => element("tr", {}, ...values.map((value) => element(kind, {}, value)));
  return element("section", { class: "panel" }, element("h2", {}, "How the vectors lie"),
    element("table", {}, element("thead", {}, cells("th", ["", "uniformity", ...(hasPairs ? ["alignment"] : []),
      ...means.map((name) => `cosine of ${name}`)])),
      element("tbody", {}, ...DATA.measures.map((model) => cells("td", [model.name, model.uniformity.toFixed(3),
        ...(hasPairs ? [model.alignment.toFixed(3)] : []), ...means.map((name) => model.means[name].toFixed(3))])))),
    element("p", { class: "soft", style: "margin-top:.6rem;max-width:44rem" },
      "Uniformity: how evenly the vectors of the texts spread, 0 if all are equal, about -4 if they spread evenly. "
      + (hasPairs ? "Alignment: the mean squared distance of the two texts of a positive pair, from 0 to 4. " : "")
      + "Smaller is better (Wang and Isola 2020)."));
}

const box = element("input", { type: "search", oninput: () => search(box.value) });
const zooms = [["+", "zoom in"], ["-", "zoom out"], ["0", "show all"]].map(([key, label]) =>
  element("button", { type: "button", "aria-label": label, title: `${label} (key ${key})`, onclick: KEYS[key] },
    key === "0" ? "all" : key));
MAIN.append(
  element("div", { class: "controls" },
    ...(DATA.views.length > 1 ? [choice("Vectors of", DATA.views.map(({ name }, number) => [String(number), name]),
      String(state.view), (number) => { state.view = Number(number); point(null); read(); repaint(); })] : []),
    element("label", {}, "Search ", box), element("span", { class: "buttons" }, ...zooms),
    element("span", { class: "soft" }, DATA.notes.join(" "))),
  element("div", { class: "panels" },
    element("section", { class: "panel" }, element("div", { class: "map" }, canvas, tip), pointed), reading),
  element("div", { class: "panels", style: "margin-top:1rem" }, numbers(),
    ...(DATA.histograms ? DATA.views.map((_, number) => histogram(number)) : [])));
read();
paint();
