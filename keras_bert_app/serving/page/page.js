// Lets the user choose a served model, asks the model, and draws its answer.
import { draw, drawAlignments } from "./drawings.js";
import { fieldsFor, readInputs, signatureOfForm } from "./forms.js";
import { element } from "./elements.js";

const byId = (id) => document.getElementById(id);
let models = [];

const chosenModel = () => models.find((model) => model.name === byId("model").value);
const hasForm = (model) => byId("signature").value === "serving_default" && model.kind;

function showError(message) {
  byId("error").textContent = message;
  byId("error").hidden = !message;
}

function clearAnswer() {
  showError("");
  byId("took").textContent = "";
  byId("answer").replaceChildren();
  byId("raw").hidden = true;
}

function setOptions(select, names) {
  select.replaceChildren(...names.map((name) => element("option", { value: name }, name)));
}

function showModel() {
  const model = chosenModel();
  const facts = [model.kind && model.kind.replaceAll("_", " "), model.task, `version ${model.version}`,
    model.max_seq_length && `up to ${model.max_seq_length} pieces`];
  byId("about").textContent = facts.filter(Boolean).join(" · ");
  const names = Object.keys(model.signatures ?? {});
  setOptions(byId("signature"), names.sort((a, b) => (b === "serving_default") - (a === "serving_default")));
  showFields();
}

function showFields() {
  clearAnswer();
  const model = chosenModel();
  byId("fields").replaceChildren(...fieldsFor(model, byId("signature").value, hasForm(model)));
}

async function load() {
  try {
    models = (await (await fetch("/v1/models")).json()).models.filter((model) => model.version);
  } catch (error) {
    return showError("The server does not answer.");
  }
  if (!models.length) return showError("No model is loaded.");
  setOptions(byId("model"), models.map((model) => model.name));
  const wanted = decodeURIComponent(location.hash.slice(1));
  if (models.some((model) => model.name === wanted)) byId("model").value = wanted;
  showModel();
}

function parsed(text) {
  try {
    return JSON.parse(text);
  } catch (error) {
    return null;  // TensorFlow Serving writes NaN and Infinity, which JavaScript does not parse
  }
}

const pathOf = (model) => `/v1/models/${encodeURIComponent(model.name)}:predict`;

// Sends a request. Returns the response, its text and the parsed text.
async function post(model, request) {
  const headers = { "Content-Type": "application/json" };
  const response = await fetch(pathOf(model), { method: "POST", headers, body: request });
  const text = await response.text();
  return { response, text, answer: parsed(text) };
}

const reason = ({ response, answer }) => answer?.error ?? `The server answered ${response.status}.`;

// Adds a heat map below the answer, for models that have the signature alignments. If this fails, the answer stays.
async function addAlignments(model, inputs) {
  if (!model.signatures.alignments) return;
  // A screen reader must not read all fields of the map aloud as soon as it appears.
  const place = element("div", { "aria-live": "off" });
  byId("answer").append(place);
  try {
    const result = await post(model, JSON.stringify({ signature_name: "alignments", inputs }));
    if (!result.response.ok) throw new Error(reason(result));
    place.append(...drawAlignments(result.answer.outputs));
  } catch (error) {
    place.append(element("p", { class: "note" }, `The alignments cannot be shown: ${error.message}`));
  }
}

async function ask() {
  const model = chosenModel(), isForm = hasForm(model);
  const signature = isForm ? signatureOfForm(model) : byId("signature").value;
  clearAnswer();
  let inputs;
  try {
    inputs = readInputs(byId("fields"));
  } catch (error) {
    return showError(`This is not JSON: ${error.message}`);
  }
  const request = JSON.stringify({ signature_name: signature, inputs });
  const start = performance.now();
  byId("ask").disabled = true;
  try {
    const result = await post(model, request), answer = result.answer;
    byId("took").textContent = `${(performance.now() - start).toFixed(0)} ms`;
    byId("request").textContent = `POST ${pathOf(model)}\n\n${request}`;
    byId("response").textContent = result.text;
    byId("raw").hidden = false;
    if (!result.response.ok) return showError(reason(result));
    const names = model.signatures[signature].outputs;
    const outputs = names.length === 1 ? { [names[0]]: answer?.outputs } : answer?.outputs;
    let drawing = null;
    try {
      drawing = isForm && outputs ? draw(model, inputs, outputs) : null;
    } catch (error) {
      showError(`The answer cannot be drawn: ${error.message}`);
    }
    if (!drawing) byId("raw").open = true;
    else {
      byId("answer").replaceChildren(...drawing);
      addAlignments(model, inputs);
    }
  } catch (error) {
    showError("The server does not answer.");
  } finally {
    byId("ask").disabled = false;
  }
}

byId("model").addEventListener("change", () => {
  history.replaceState(null, "", `#${encodeURIComponent(byId("model").value)}`);
  showModel();
});
byId("signature").addEventListener("change", showFields);
byId("form").addEventListener("submit", (event) => {
  event.preventDefault();
  ask();
});
// A button in an answer may put its text into the form and ask again.
byId("answer").addEventListener("click", (event) => {
  if (event.target.dataset.text === undefined || byId("ask").disabled) return;
  byId("fields").querySelector("textarea").value = event.target.dataset.text;
  ask();
});
byId("form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !byId("ask").disabled) ask();
});
load();
