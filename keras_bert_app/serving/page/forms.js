// Makes the input fields of a model: text areas with its example, or one JSON field for a kind without a form.
import { element } from "./elements.js";

// Kind of model -> the input that holds several texts, one per line.
const LINES = { embeddings: "text", multiple_choice: "choices" };
const LONG = new Set(["context", "document"]);
const NAMES = { text: "Text", text_a: "First text", text_b: "Second text", query: "Query", document: "Document",
  question: "Question", context: "Context",
  choices: "Choices, one per line" };
// Kind of model -> the numbers of its form: name -> [title, smallest value, step].
const NUMBERS = { generation: { max_new_tokens: ["Most new pieces", 1, 1],
  temperature: ["Temperature; 0 takes the most probable piece", 0, "any"] } };
const ORDER = ["query", "document", "context", "question", "text", "text_a", "text_b", "choices"];

// The signature that answers the form of a model. The form of a model that continues texts has the numbers of generate.
export const signatureOfForm = (model) =>
  model.kind === "generation" && model.signatures.generate ? "generate" : "serving_default";

// Makes the fields for numbers. Inputs that the form does not show keep their example; the seed is new for each request.
function numberFields(model) {
  const signature = signatureOfForm(model), example = model.examples?.[signature] ?? {};
  const names = Object.keys(model.signatures[signature].inputs)
    .filter((name) => model.signatures[signature].inputs[name].type !== "string");
  return names.map((name) => {
    const value = example[name]?.[0] ?? 0, shown = NUMBERS[model.kind]?.[name];
    if (!shown) return element("input", { type: "hidden", name, value, ...(name === "seed" && { "data-random": "" }) });
    const [title, min, step] = shown;
    return element("label", {}, title, element("input", { type: "number", name, value, min, step }));
  });
}

export function fieldsFor(model, signature, hasForm) {
  const inputs = Object.keys(model.signatures[signature].inputs);
  const example = model.examples?.[signature] ?? {};
  if (!hasForm || !inputs.every((name) => model.signatures[signature].inputs[name].type === "string")) {
    const columns = inputs.map((name) => ` ${JSON.stringify(name)}: ${JSON.stringify(example[name] ?? [])}`);
    return [element("label", {}, "Inputs as JSON, one list of values for each input",
      element("textarea", { class: "code", rows: 8, spellcheck: "false", "data-json": "" },
        `{\n${columns.join(",\n")}\n}`))];
  }
  const place = (name) => (ORDER.indexOf(name) + ORDER.length + 1) % (ORDER.length + 1);
  const texts = inputs.sort((a, b) => place(a) - place(b)).map((name) => {
    const isLines = LINES[model.kind] === name;
    const values = isLines ? [example[name] ?? []].flat(2) : [example[name]?.[0] ?? ""];
    const title = isLines && name === "text" ? "Texts, one per line" : NAMES[name] ?? name;
    return element("label", {}, title, element("textarea", { name, rows: LONG.has(name) ? 7 : isLines ? 5 : 3,
      ...(isLines && { "data-lines": model.kind === "multiple_choice" ? "group" : "batch" }) }, values.join("\n")));
  });
  return [...texts, ...numberFields(model)];
}

// Reads the "inputs" of a request, in column form. Throws SyntaxError if the JSON field does not hold JSON.
export function readInputs(fields) {
  const json = fields.querySelector("[data-json]");
  if (json) return JSON.parse(json.value);
  const inputs = {};
  for (const field of fields.querySelectorAll("textarea")) {
    const lines = field.value.split("\n").filter((line) => line.trim());
    inputs[field.name] = { batch: lines, group: [lines] }[field.dataset.lines] ?? [field.value];
  }
  for (const field of fields.querySelectorAll("input")) {
    inputs[field.name] = ["random" in field.dataset ? Math.floor(Math.random() * 2 ** 31) : Number(field.value)];
  }
  return inputs;
}
