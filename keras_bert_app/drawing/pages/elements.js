const DATA = JSON.parse(document.getElementById("data").textContent);
const MAIN = document.querySelector("main");

// Makes an element with attributes, event listeners (on...) and children. "svg:" before the name makes an SVG element.
function element(name, attributes = {}, ...children) {
  const made = name.startsWith("svg:") ? document.createElementNS("http://www.w3.org/2000/svg", name.slice(4)) :
    document.createElement(name);
  for (const [key, value] of Object.entries(attributes)) {
    if (key.startsWith("on")) made.addEventListener(key.slice(2), value);
    else made.setAttribute(key, value);
  }
  made.append(...children);
  return made;
}

// Makes a labelled list to choose from. An option is [value, text]. The list calls changed with the chosen value.
function choice(label, options, value, changed) {
  const select = element("select", { onchange: () => changed(select.value) },
    ...options.map(([option, text]) => element("option", { value: option }, text)));
  select.value = value;
  return element("label", {}, `${label} `, select);
}

const percent = (share) => `${(100 * share).toFixed(share < 0.0995 ? 1 : 0)}%`;
