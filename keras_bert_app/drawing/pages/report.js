// DATA: [{name, title, of: a warning about another model or "", how: the options, remarks: [line],
// tables: [{title, columns, rows: [[cell]]}], pictures: [{name, png}], beside: [files next to the page]}]
const isNumber = (cell) => /^-?[\d,]*\.?\d+%?$/.test(cell) || cell === "";

function table(content) {
  const isText = content.columns.map((_, at) => !content.rows.every((row) => isNumber(row[at])));
  const line = (kind, cells) => element("tr", {}, ...cells.map((cell, at) =>
    element(kind, { style: `text-align:${isText[at] ? "left" : "right"}` }, cell)));
  return element("div", { class: "panel" }, element("h2", {}, content.title), element("table", {},
    element("thead", {}, line("th", content.columns)),
    element("tbody", {}, ...content.rows.map((row) => line("td", row)))));
}

MAIN.append(element("p", {}, ...DATA.flatMap((section) => [element("a", { href: `#${section.name}` }, section.name.replaceAll("_", " ")), " · "])
  .slice(0, -1)));
for (const section of DATA) {
  MAIN.append(element("section", { id: section.name, class: "column", style: "margin-bottom:2.5rem" },
    element("h1", {}, section.title),
    ...(section.of ? [element("p", { role: "alert", style: "margin:0;color:#cc3311;font-weight:bold" }, section.of)] : []),
    element("p", { class: "soft", style: "margin:0" }, section.how),
    ...section.remarks.map((line) => element("p", { style: "margin:0" }, line)),
    ...section.tables.map(table),
    ...section.pictures.map((picture) => element("img", { src: `data:image/png;base64,${picture.png}`, alt: picture.name,
      style: "max-width:100%;height:auto" })),
    ...(section.beside.length ? [element("p", {}, "Files next to this page: ", ...section.beside.flatMap((file) =>
      [element("a", { href: file }, file), " "]))] : [])));
}
