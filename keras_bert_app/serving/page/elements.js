// Makes an element. Texts become text nodes, because markup in texts of users or models may be harmful.
export function element(name, attributes = {}, ...children) {
  const made = document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key === "style") for (const [property, set] of Object.entries(value)) made.style.setProperty(property, set);
    else made.setAttribute(key, value);
  }
  made.append(...children.map((child) => child instanceof Node ? child : String(child)));
  return made;
}

// Formats a probability: 97.3 %, and < 0.1 % instead of 0.0 %.
export function percent(probability) {
  return probability > 0 && probability < 0.001 ? "< 0.1 %" : `${(100 * probability).toFixed(1)} %`;
}
