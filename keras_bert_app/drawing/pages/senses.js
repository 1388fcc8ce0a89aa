// DATA: {words: {word: {items: [{before, word, after, document}], views: {name: {points: [[x, y]], clusters: [number],
// nearest: [[[item, cosine]]], typical: [[words]], middles: [item]}}}}, colors}
const WORDS = Object.keys(DATA.words);
const state = { word: WORDS[0], view: Object.keys(DATA.words[WORDS[0]].views)[0], item: null };
const SIDE = 560, EDGE = 16;
const color = (cluster) => DATA.colors[cluster % DATA.colors.length];

function context(item, most) {
  const before = item.before.length > most ? `…${item.before.slice(-most)}` : item.before;
  const after = item.after.length > most ? `${item.after.slice(0, most)}…` : item.after;
  return [before, element("mark", {}, item.word), after];
}

// Returns a function that maps points into the square, with the same factor in both directions.
function scale(points) {
  const [xs, ys] = [0, 1].map((axis) => points.map((point) => point[axis]));
  const [left, top] = [Math.min(...xs), Math.min(...ys)];
  const factor = (SIDE - 2 * EDGE) / Math.max(Math.max(...xs) - left, Math.max(...ys) - top, 1e-6);
  return ([x, y]) => [EDGE + (x - left) * factor, EDGE + (y - top) * factor];
}

function plot(found, view, show) {
  const points = view.points, at = scale(points);
  const near = new Set(state.item === null ? [] : view.nearest[state.item].map(([item]) => item));
  const picture = element("svg:svg", { width: SIDE, height: SIDE, role: "img",
    "aria-label": `occurrences of ${state.word} as points` });
  points.forEach((point, index) => {
    const [x, y] = at(point), item = found.items[index], isChosen = index === state.item;
    const isMarked = isChosen || near.has(index);
    picture.append(element("svg:circle", { cx: x, cy: y, r: isChosen ? 9 : 5.5, fill: color(view.clusters[index]),
      "fill-opacity": 0.8, stroke: isMarked ? "#000000" : "#ffffff", "stroke-width": isMarked ? 2 : 0.8,
      style: "cursor:pointer", tabindex: 0,
      onmouseenter: () => show(index), onfocus: () => show(index), onclick: () => set({ item: index }),
      onkeydown: (event) => event.key === "Enter" && set({ item: index }) },
      element("svg:title", {}, item.before + item.word + item.after)));
  });
  return picture;
}

function clusters(found, view) {
  return view.typical.map((words, cluster) => element("section", {},
    element("h2", { style: `color:${color(cluster)}` },
      `Cluster ${cluster + 1}: ${view.clusters.filter((one) => one === cluster).length} occurrences`),
    element("p", {}, element("span", { class: "soft" }, `Typical words: ${words.join(", ")}. Central occurrence: `),
      ...context(found.items[view.middles[cluster]], 90))));
}

function nearest(found, view) {
  if (state.item === null) {
    return [element("p", { class: "soft" },
      "Point at a dot to read its sentence. Click the dot for the nearest sentences (by cosine of these vectors).")];
  }
  const items = view.nearest[state.item].map(([index, cosine]) => element("li", {},
    element("span", { style: `color:${color(view.clusters[index])}` }, `${cosine.toFixed(3)} `),
    ...context(found.items[index], 110)));
  return [element("h2", {}, "Nearest sentences"), element("ol", {}, ...items)];
}

function set(changes) {
  Object.assign(state, changes);
  const found = DATA.words[state.word], view = found.views[state.view], sentence = element("p", { "aria-live": "polite", style: "min-height:4.5em" });
  const show = (index) => sentence.replaceChildren(...context(found.items[index], 260));
  if (state.item !== null) show(state.item);
  MAIN.replaceChildren(
    element("div", { class: "controls" },
      choice("Word", WORDS.map((word) => [word, `${word} (${DATA.words[word].items.length})`]), state.word,
        (word) => set({ word, item: null })),
      choice("Vectors of", Object.keys(found.views).map((name) => [name, name]), state.view, (view) => set({ view })),
      element("span", { class: "soft" }, "t-SNE gives the places. Colours show the clusters of the layer. For the "
        + "untrained encoder, colours show the clusters of the trained last layer.")),
    element("div", { class: "panels" }, element("section", { class: "panel" }, plot(found, view, show)),
      element("section", { class: "panel", style: "flex: 1 1 24rem" },
        sentence, ...nearest(found, view), ...clusters(found, view))));
}

set({});
