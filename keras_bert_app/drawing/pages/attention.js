// DATA: {levels: {pieces|words: {tokens, special: [indices], weights}}, layers, heads, focus: [layer, head]}; weights
// is base64 of little-endian uint16 [layers, heads, tokens, tokens], 65535 means 1. Rows attend to columns.
const LEVELS = Object.fromEntries(Object.entries(DATA.levels).map(([name, level]) => {
  const bytes = Uint8Array.from(atob(level.weights), (character) => character.charCodeAt(0));
  return [name, { ...level, weights: new Uint16Array(bytes.buffer), special: new Set(level.special) }];
}));
const state = { level: "words", layer: DATA.focus[0], head: DATA.focus[1], hidesSpecial: false, token: null };
const ROW = 19, COLUMN = 250, LABEL = 110;

const weight = (level, layer, head, from, to) => {
  const size = level.tokens.length;
  return level.weights[((layer * DATA.heads + head) * size + from) * size + to] / 65535;
};
const shown = (level) => level.tokens.map((_, index) => index)
  .filter((index) => !(state.hidesSpecial && level.special.has(index)));

// From white to blue. The square root makes small weights visible.
function color(share) {
  const depth = Math.sqrt(Math.min(1, share));
  return [255 - 247 * depth, 255 - 207 * depth, 255 - 148 * depth].map(Math.round);
}

function paint(canvas, level, layer, head) {
  const indices = shown(level), size = indices.length;
  canvas.width = canvas.height = Math.max(1, size);
  const context = canvas.getContext("2d"), image = context.createImageData(canvas.width, canvas.height);
  indices.forEach((from, y) => indices.forEach((to, x) =>
    image.data.set([...color(weight(level, layer, head, from, to)), 255], 4 * (y * size + x))));
  context.putImageData(image, 0, 0);
}

function overview(level) {
  const side = Math.max(30, Math.min(64, Math.floor(760 / DATA.heads) - 6));
  const cells = [element("small", {}, "layer \\ head"),
    ...Array.from({ length: DATA.heads }, (_, head) => element("small", {}, `${head + 1}`))];
  for (let layer = 0; layer < DATA.layers; layer++) {
    cells.push(element("small", {}, `${layer + 1}`));
    for (let head = 0; head < DATA.heads; head++) {
      const canvas = element("canvas", { style: `width:${side}px;height:${side}px` });
      paint(canvas, level, layer, head);
      const name = `layer ${layer + 1}, head ${head + 1}`;
      cells.push(element("button", { "aria-label": name, title: name,
        "aria-pressed": layer === state.layer && head === state.head,
        onclick: () => set({ layer, head, token: null }) }, canvas));
    }
  }
  return element("div", { class: "grid", style: `grid-template-columns: auto repeat(${DATA.heads}, auto)` }, ...cells);
}

const short = (token) => token.length > 16 ? `${token.slice(0, 15)}…` : token;

// Draws the tokens on two sides, and lines whose strength shows the weight. If the user chose a token, draws only the
// lines from that token.
function lines(level) {
  const indices = shown(level), height = ROW * indices.length + 10;
  const picture = element("svg:svg", { width: 2 * LABEL + COLUMN, height, role: "img",
    "aria-label": "lines from each token to the tokens that it attends to" });
  const y = (place) => ROW * place + 15;
  indices.forEach((from, row) => {
    if (state.token !== null && state.token !== from) return;
    indices.forEach((to, column) => {
      const share = weight(level, state.layer, state.head, from, to);
      if (share < 0.02) return;
      picture.append(element("svg:line", { x1: LABEL + 6, y1: y(row) - 4, x2: LABEL + COLUMN - 6, y2: y(column) - 4,
        stroke: "#0b4c9c", "stroke-width": 0.6 + 2.4 * share, "stroke-opacity": Math.min(1, 0.08 + share) },
        element("svg:title", {}, `${level.tokens[from]} → ${level.tokens[to]}: ${percent(share)}`)));
    });
  });
  indices.forEach((index, place) => {
    const chosen = state.token;
    const share = chosen === null ? null : weight(level, state.layer, state.head, chosen, index);
    const kind = level.special.has(index) ? "special" : "";
    picture.append(element("svg:text", { x: LABEL, y: y(place), "text-anchor": "end", style: "cursor:pointer",
      class: `${kind} ${chosen !== null && chosen !== index ? "dim" : ""}`,
      onclick: () => set({ token: chosen === index ? null : index }) },
      short(level.tokens[index]), element("svg:title", {}, "click: only the lines of this token")));
    picture.append(element("svg:text", { x: LABEL + COLUMN, y: y(place),
      class: `${kind} ${share !== null && share < 0.02 ? "dim" : ""}` },
      share === null ? short(level.tokens[index]) : `${short(level.tokens[index])}  ${percent(share)}`));
  });
  return picture;
}

function map(level) {
  const indices = shown(level), size = indices.length, cell = Math.max(9, Math.min(22, Math.floor(560 / size)));
  const side = LABEL + size * cell + 10, picture = element("svg:svg", { width: side, height: side, role: "img",
    "aria-label": "the weights, rows attend to columns" });
  const text = { style: `font-size:${Math.min(12, cell + 1)}px` };
  indices.forEach((index, place) => {
    const at = LABEL + (place + 0.75) * cell, name = short(level.tokens[index]);
    const kind = { ...text, class: level.special.has(index) ? "special" : "" };
    picture.append(element("svg:text", { ...kind, x: LABEL - 5, y: at, "text-anchor": "end" }, name),
      element("svg:text", { ...kind, transform: `translate(${at},${LABEL - 5}) rotate(-90)` }, name));
  });
  indices.forEach((from, row) => indices.forEach((to, column) => {
    const share = weight(level, state.layer, state.head, from, to);
    picture.append(element("svg:rect", { x: LABEL + column * cell, y: LABEL + row * cell, width: cell, height: cell,
      fill: `rgb(${color(share)})`, stroke: "#eeeeee", "stroke-width": 0.5 },
      element("svg:title", {}, `${level.tokens[from]} → ${level.tokens[to]}: ${percent(share)}`)));
  }));
  return picture;
}

function set(changes) {
  Object.assign(state, changes);
  const level = LEVELS[state.level], name = `Layer ${state.layer + 1}, head ${state.head + 1}`;
  const special = element("input", { type: "checkbox",
    onchange: () => set({ hidesSpecial: special.checked, token: null }) });
  special.checked = state.hidesSpecial;
  MAIN.replaceChildren(
    element("div", { class: "controls" },
      choice("Attention between", [["words", "words"], ["pieces", "pieces"]], state.level,
        (name) => set({ level: name, token: null })),
      element("label", {}, special, " leave out [CLS] and [SEP]"),
      element("span", { class: "soft" }, "Rows attend to columns. Darker means a larger weight (square-root scale).")),
    element("div", { class: "panels" },
      element("div", { class: "column" },
        element("section", { class: "panel" }, element("h2", {}, "All heads"), overview(level)),
        element("section", { class: "panel" }, element("h2", {}, `${name}: map`), map(level))),
      element("section", { class: "panel" }, element("h2", {}, name),
        element("p", { class: "soft" }, "Left attends to right. Click a token on the left to see only its weights."),
        lines(level))));
}

set({});
