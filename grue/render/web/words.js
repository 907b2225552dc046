// Numbers and elements in words.

const make = (tag, attributes = {}, ...children) => {
  const element = Object.assign(document.createElement(tag), attributes);
  element.append(...children.filter((child) => child !== null && child !== undefined));
  return element;
};

// 240617 → "241 k", with three digits.
function amount(value) {
  if (value === null || value === undefined) return "–";
  for (const [size, unit] of [[1e12, " T"], [1e9, " G"], [1e6, " M"], [1e3, " k"]]) {
    if (value >= size) return `${Number((value / size).toPrecision(3))}${unit}`;
  }
  return String(Math.round(value));
}

function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const [size, unit] = seconds < 120 ? [1, "s"] : seconds < 7200 ? [60, "min"] : [3600, "h"];
  return `${Number((seconds / size).toPrecision(3))} ${unit}`;
}

const plural = (count, word) => `${count} ${word}${count === 1 ? "" : "s"}`;

// A name that may break after an underscore, a plus sign or a hyphen, and nowhere else.
function breakable(name) {
  const found = document.createDocumentFragment();
  for (const part of name.split(/(?<=[_+-])/)) found.append(part, document.createElement("wbr"));
  found.lastChild?.remove();
  return found;
}

// A table of texts, the first of each row its head; cells may be elements.
function textTable(className, caption, heads, rows) {
  const cell = (tag, content, attributes = {}) => make(tag, attributes, content);
  return make(
    "table",
    { className },
    make("caption", { className: "hush", textContent: caption }),
    make("thead", {}, make("tr", {}, ...heads.map((head) => cell("th", head, { scope: "col" })))),
    make("tbody", {}, ...rows.map(([first, ...rest]) => make("tr", {}, cell("th", first, { scope: "row" }), ...rest.map((one) => cell("td", one))))),
  );
}

// A box that scrolls sideways, with a name for those who cannot see it.
function scrolling(label, content) {
  const box = make("div", { className: "scroll", tabIndex: 0 }, content);
  box.setAttribute("role", "region");
  box.setAttribute("aria-label", label);
  return box;
}
