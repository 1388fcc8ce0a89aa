// Draws answers. Each kind of model has a function, which takes the model, the inputs and the outputs of the first
// example, and returns a list of nodes. The function for embeddings takes the outputs of all examples.
import { element, percent } from "./elements.js";

const TOO_LONG = "The input is longer than the model can read; a part of it was left out.";
const ALIGNMENTS = "What each piece of the answer looks at";
const MOST_PIECES = 60;  // of a text in a heat map

export function draw(model, inputs, outputs) {
  const drawing = DRAWINGS[model.kind];
  if (!drawing) return null;
  const nodes = drawing(model, inputs, model.kind === "embeddings" ? outputs : first(outputs));
  if (nodes && [outputs.truncated].flat().some(Boolean)) nodes.push(element("p", { class: "note" }, TOO_LONG));
  return nodes;
}

const first = (outputs) => Object.fromEntries(Object.entries(outputs).map(([name, values]) => [name, values[0]]));

// rows: a list of [name, probability, whether this is the chosen one].
function bars(rows) {
  return element("ul", { class: "bars" }, ...rows.map(([name, share, isChosen]) =>
    element("li", isChosen ? { class: "chosen" } : {}, element("span", { class: "name" }, name),
      element("span", { class: "track", "aria-hidden": "true" },
        element("span", { class: "fill", style: { width: `${100 * Math.min(1, Math.max(0, share))}%` } })),
      element("span", { class: "number" }, percent(share)))));
}

const ranked = (names, shares) => names.map((name, index) => [name, shares[index]]).sort((a, b) => b[1] - a[1]);
const chooseFirst = (rows) => rows.map(([name, share], index) => [name, share, index === 0]);

// Returns the hue of a label, from its place among the model's labels, or else from its letters.
function hue(label, labels) {
  const name = label.replace(/^[BI]-/, "");
  const bare = (labels ?? []).filter((other) => other !== "O").map((other) => other.replace(/^[BI]-/, ""));
  const names = [...new Set(bare)];
  const place = names.indexOf(name);
  const turn = place >= 0 ? place : [...name].reduce((sum, letter) => sum + letter.codePointAt(0), 0);
  return String((175 + 137.5 * turn) % 360);
}

// Returns a text with marked spans. spans: a list of [start, end, label, share] in characters (code points), end
// exclusive.
function marked(text, spans, labels) {
  const characters = Array.from(text), nodes = [];
  let at = 0;
  for (const [start, end, label, share] of [...spans].sort((a, b) => a[0] - b[0])) {
    if (start < at || end <= start) continue;
    nodes.push(characters.slice(at, start).join(""));
    const shown = [label, share === undefined ? "" : percent(share)].filter(Boolean).join(" ");
    nodes.push(element("mark", label ? { style: { "--hue": hue(label, labels) } } : {},
      characters.slice(start, end).join(""), ...(shown ? [element("small", {}, shown)] : [])));
    at = end;
  }
  return element("p", { class: "text" }, ...nodes, characters.slice(at).join(""));
}

function fillMask(model, { text: [text] }, { tokens, probabilities }) {
  const masks = tokens.filter((mask) => mask[0]);
  if (!masks.length) return [element("p", {}, "Put [MASK] where the model must fill in a word.")];
  const parts = text.split("[MASK]");
  const filled = parts.flatMap((part, index) => index < masks.length ? [part, element("mark", {}, masks[index][0])] :
    [part + (index < parts.length - 1 ? "[MASK]" : "")]);
  return [element("p", { class: "text" }, ...filled), ...masks.flatMap((mask, index) =>
    [element("h2", {}, masks.length > 1 ? `Mask ${index + 1}` : "Mask"),
      bars(chooseFirst(mask.map((token, rank) => [token, probabilities[index][rank]])))])];
}

const classification = (model, inputs, { labels, probabilities }) => [bars(chooseFirst(ranked(labels, probabilities)))];

const multiLabel = (model, inputs, { labels, probabilities, is_chosen: isChosen }) =>
  [bars(labels.map((label, index) => [label, probabilities[index], isChosen[index]]).sort((a, b) => b[1] - a[1]))];

const regression = (model, inputs, { score }) => [element("p", { class: "large" }, score.toFixed(3))];

const rerank = (model, inputs, { scores }) => [element("p", { class: "large" }, scores.toFixed(3))];

function tagging(model, { text: [text] }, outputs) {
  if (outputs.entities) {
    const { entity_starts: starts, entity_ends: ends, entity_labels: labels, entity_probabilities: shares } = outputs;
    const spans = labels.map((label, index) => [starts[index], ends[index], label, shares[index]])
      .filter(([, , label]) => label);
    const nothing = spans.length ? [] : [element("p", { class: "hint" }, "No entity found.")];
    return [marked(text, spans, model.labels), ...nothing];
  }
  return [element("div", { class: "words" }, ...outputs.words.flatMap((word, index) => outputs.tags[index] ?
    [element("span", { title: percent(outputs.word_probabilities[index]) },
      element("mark", { style: { "--hue": hue(outputs.tags[index], model.labels) } }, word),
      element("small", {}, outputs.tags[index]))] : []))];
}

function questionAnswering(model, { context: [context] }, outputs) {
  const nbest = outputs.nbest_answers
    .map((answer, index) => [answer || "(no answer)", outputs.nbest_probabilities[index]])
    .filter(([answer, share]) => share > 0);
  const isAnswered = outputs.start >= 0;
  return [element("p", { class: "large" }, isAnswered ? outputs.answer : "No answer in the context"),
    marked(context, isAnswered ? [[outputs.start, outputs.end, "", outputs.probability]] : []),
    element("h2", {}, "Best answers"), bars(chooseFirst(nbest))];
}

const multipleChoice = (model, { choices: [choices] }, { choice, probabilities }) =>
  [bars(choices.map((text, index) => [text, probabilities[index], index === choice]))];

function textToText(model, inputs, { texts, scores }) {
  const others = texts.slice(1).map((text, index) => element("li", {}, `${text} (${scores[index + 1].toFixed(2)})`));
  return [element("p", { class: "text" }, texts[0] || "(an empty text)"),
    ...(others.length ? [element("p", { class: "hint" }, "Other texts, with their scores"),
      element("ul", {}, ...others)] : [])];
}

const generation = (model, { text: [text] }, { continuation }) =>
  [element("p", { class: "text" }, text, element("mark", {}, continuation || "(the text ends here)")),
    element("button", { type: "button", "data-text": text + continuation }, "Go on")];

// Draws the outputs of the signature alignments as a heat map. Returns a list of nodes.
export function drawAlignments(outputs) {
  const { source_pieces: source, target_pieces: target, attention } = first(outputs);
  // The server pads a text with "" if it runs together with longer ones.
  const texts = [source, target].map((pieces) => pieces.filter(Boolean));
  const [columns, rows] = texts.map((pieces) => pieces.slice(0, MOST_PIECES));
  const head = element("tr", {}, element("td"),
    ...columns.map((piece) => element("th", { scope: "col", title: piece }, element("span", {}, piece))));
  const body = rows.map((piece, row) => element("tr", {}, element("th", { scope: "row", title: piece }, piece),
    ...columns.map((other, column) => {
      const share = attention[row][column];
      return element("td", { title: `${piece} → ${other}: ${percent(share)}`, style: { "--share": String(share) } });
    })));
  const isCut = texts.some((pieces) => pieces.length > MOST_PIECES);
  return [element("h2", {}, ALIGNMENTS),
    element("div", { class: "scroll", tabindex: "0" },
      element("table", { class: "heat", "aria-label": ALIGNMENTS }, head, ...body)),
    element("p", { class: "hint" }, "Each row is a piece of the answer, and each column is a piece of the text. A " +
      "stronger colour means a larger share of the attention."),
    ...(isCut ? [element("p", { class: "note" },
      `Only the first ${MOST_PIECES} pieces of the text and of the answer are shown; the rest was left out.`)] : [])];
}

function embeddings(model, { text: texts }, { embedding }) {
  const dot = (a, b) => a.reduce((sum, value, index) => sum + value * b[index], 0);
  const cosine = (a, b) => dot(a, b) / Math.max(Math.sqrt(dot(a, a) * dot(b, b)), 1e-12);
  const head = element("tr", {}, element("td"),
    ...texts.map((text, index) => element("th", { scope: "col", title: text }, index + 1)));
  const rows = texts.map((text, index) => element("tr", {},
    element("th", { scope: "row", title: text }, `${index + 1}  ${text}`),
    ...embedding.map((other) => {
      const similarity = cosine(embedding[index], other);
      return element("td", { style: { "--share": String(Math.max(0, similarity)) } }, similarity.toFixed(2));
    })));
  return [element("h2", {}, "Cosine similarity"),
    element("div", { class: "scroll", tabindex: "0" }, element("table", {}, head, ...rows)),
    element("p", { class: "hint" }, `Vectors of ${embedding[0]?.length ?? 0} numbers`)];
}

const DRAWINGS = { fill_mask: fillMask, classification, multi_label: multiLabel, regression, rerank, tagging,
  question_answering: questionAnswering, multiple_choice: multipleChoice, embeddings,
  text_to_text: textToText, generation };
