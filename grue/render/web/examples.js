// What systems wrote: examples of a task with the outputs of chosen systems side by side. A task's file of examples is
// loaded by a script element when it is asked for; its texts are strangers' and become text nodes, nothing else.

const examplesPanel = document.getElementById("examples");
const gallery = document.getElementById("gallery");
const PAGE = 10; // examples at a time
const FEW = 4; // systems that are chosen at first
const loaded = new Map(); // task → its examples; null if the file is missing or of another version of the task
let chosen; // what the gallery shows now
let pages = 1;

function takeExamples(data) {
  const task = board.tasks[taskIndex.get(data.task)];
  const fits = task && data.suite === board.suite && data.hash === task.hash;
  if (task) loaded.set(data.task, fits ? data : null);
}

function loadExamples(task, then) {
  if (loaded.has(task)) return then();
  const script = make("script", { src: `examples/${board.suite}/${encodeURIComponent(task)}.js`, async: true });
  script.addEventListener("load", () => {
    if (!loaded.has(task)) loaded.set(task, null);
    then();
  });
  script.addEventListener("error", () => {
    loaded.set(task, null);
    then();
  });
  document.head.append(script);
}

const control = (name) => examplesPanel.querySelector(`[name=${name}]`);

function makeExamples(choose) {
  globalThis.grueExamples = takeExamples;
  if (!board.shown.length) return;
  document.getElementById("browse").hidden = false;
  for (const task of board.shown) control("task").add(new Option(task, task));
  control("task").addEventListener("change", () => choose({ task: control("task").value, example: "" }));
  control("find").addEventListener("input", () => choose({ find: control("find").value }));
  control("order").addEventListener("change", () => choose({ order: control("order").value }));
  control("only").addEventListener("change", () => choose({ only: control("only").value }));
  document.getElementById("outputs").addEventListener("change", () => {
    const names = all("#outputs input:checked").map((box) => box.value);
    choose({ outputs: names });
  });
  document.getElementById("further").addEventListener("click", () => {
    const first = gallery.children.length;
    pages += 1;
    drawGallery();
    gallery.children[first]?.querySelector("a").focus();
  });
}

function showExamples(state) {
  if (!board.shown.length) return;
  const task = board.shown.includes(state.task) ? state.task : board.shown[0];
  control("task").value = task;
  control("find").value = state.find;
  control("only").value = state.only;
  document.getElementById("count").textContent = "Loading …";
  loadExamples(task, () => {
    if (control("task").value !== task) return; // another task was chosen meanwhile
    const data = loaded.get(task);
    if (!data) {
      document.getElementById("count").textContent = `examples/${board.suite}/${task}.js is not beside this page, or is of another version of the task.`;
      gallery.replaceChildren();
      document.getElementById("further").hidden = true;
      return;
    }
    chosen = { ...state, task, data, outputs: outputsOf(state, data) };
    pages = 1;
    fillChoices(data, chosen);
    drawGallery();
  });
}

// The chosen systems, as places in the data: those of the address, else the first ranked ones.
function outputsOf(state, data) {
  const places = data.systems.map((_, place) => place);
  const named = places.filter((place) => state.outputs?.includes(data.systems[place].name));
  if (state.outputs && (named.length || !state.outputs.length)) return named;
  const competes = (place) => board.systems.some((system) => system.system === data.systems[place].name && system.standing !== "reference");
  const competing = places.filter(competes);
  return (competing.length > 1 ? competing : places).slice(0, FEW);
}

const labelOf = (name) => board.systems.find((system) => system.system === name)?.label ?? name;

function fillChoices(data, { outputs, order }) {
  const boxes = data.systems.map(({ name }, place) => {
    const box = make("input", { type: "checkbox", value: name, checked: outputs.includes(place) });
    return make("label", {}, box, " ", breakable(labelOf(name)));
  });
  const focused = document.activeElement?.closest?.("#outputs") && document.activeElement.value;
  document.getElementById("outputs").replaceChildren(...boxes);
  if (focused) all("#outputs input").find((box) => box.value === focused)?.focus();
  const orders = [["different", "most different first"], ["id", "by id"]];
  for (const metric of data.metrics) orders.push([`low.${metric}`, `lowest ${metric} first`], [`high.${metric}`, `highest ${metric} first`]);
  control("order").replaceChildren(...orders.map(([value, text]) => new Option(text, value)));
  control("order").value = orders.some(([value]) => value === order) ? order : "different";
}

// A text comes as itself, or as its beginning and the number of its characters.
const textOf = (text) => (Array.isArray(text) ? text[0] : text);

const isAlike = (example, outputs) => new Set(outputs.map((place) => textOf(example.outputs[place]?.[0] ?? ""))).size < 2;

function fitting({ data, outputs, order, only, find, example }) {
  if (example) return data.examples.filter((one) => one.id === example);
  const words = find.toLowerCase().split(/\s+/).filter(Boolean);
  const kept = data.examples.filter((one) => {
    if (only === "differ" && isAlike(one, outputs)) return false;
    if (only === "drawn" && !one.drawn) return false;
    const searched = [one.id, one.prompt, ...one.references, ...outputs.map((place) => one.outputs[place]?.[0] ?? "")];
    const text = searched.map(textOf).join("\n").toLowerCase();
    return words.every((word) => text.includes(word));
  });
  const [way, metric] = order.split(/\.(.*)/);
  const column = data.metrics.indexOf(metric);
  const score = (one) => {
    const scores = outputs.flatMap((place) => (one.outputs[place] ? [one.outputs[place][2 + column]] : []));
    return scores.length ? mean(scores) : null;
  };
  if (way === "id") return kept.sort((a, b) => (a.id < b.id ? -1 : 1));
  if (column < 0) return kept.sort((a, b) => b.difference - a.difference || (a.id < b.id ? -1 : 1));
  const sign = way === "low" ? 1 : -1;
  return kept.sort((a, b) => sign * ((score(a) ?? Infinity * sign) - (score(b) ?? Infinity * sign)) || (a.id < b.id ? -1 : 1));
}

function drawGallery() {
  const { data, example, task } = chosen;
  const found = fitting(chosen);
  const shown = found.slice(0, pages * PAGE);
  const drawn = data.examples.filter((one) => one.drawn).length;
  const count = document.getElementById("count");
  const rest = data.examples.length - drawn;
  const how = `of ${data.of.toLocaleString("en")} in the split ${data.split}, ${drawn} drawn by the hash of their ids${rest ? ` and ${rest} where the competing systems differ most` : ""} are here.`;
  if (example) count.replaceChildren(found.length ? "One example. " : `There is no example ${example} here. `, make("a", { href: `#${galleryAddress({ ...chosen, example: "" })}` }, "All examples"));
  else count.textContent = `${found.length ? plural(found.length, "example") : "No example fits"}; ${how}`;
  gallery.replaceChildren(...shown.map((one) => exampleCard(one, data, chosen)));
  const further = document.getElementById("further");
  further.hidden = found.length <= shown.length;
  further.textContent = `Show ${Math.min(PAGE, found.length - shown.length)} more`;
  if (!board.systems.length || !task) further.hidden = true;
}

function galleryAddress({ task, outputs, data, example, find, order, only }) {
  const values = new URLSearchParams({ task });
  if (outputs?.length && data) values.set("systems", outputs.map((place) => data.systems[place].name).join(" "));
  if (find && !example) values.set("find", find);
  if (order && order !== "different" && !example) values.set("order", order);
  if (only && !example) values.set("only", only);
  if (example) values.set("example", example);
  return `examples&${values}`;
}

function exampleCard(one, data, { outputs, task }) {
  const link = make("a", { href: `#${galleryAddress({ ...chosen, task, example: one.id })}` }, breakable(one.id));
  const differing = one.difference ? ` · ${Math.round(100 * one.difference)} % of the competing systems' words differ` : " · the competing systems wrote the same";
  const heading = make("h3", {}, link, make("small", {}, differing));
  const references = one.references.map((reference) => writing(reference, "text"));
  const given = make(
    "div",
    { className: "given" },
    make("div", {}, make("h4", {}, "Prompt"), writing(one.prompt, "text")),
    make("div", {}, make("h4", {}, plural(references.length, "reference")), ...references),
  );
  const written = make("div", { className: "written" }, ...outputs.map((place) => outputOf(one, data, place)));
  return make("article", {}, heading, given, outputs.length ? written : make("p", { className: "facts" }, "No system is chosen."));
}

function outputOf(one, data, place) {
  const { name, seed } = data.systems[place];
  const known = board.systems.findIndex((system) => system.system === name);
  const title = make("h4", {}, known < 0 ? breakable(name) : make("a", { href: `#${systemAddress(known)}` }, breakable(labelOf(name))), make("small", {}, ` seed ${seed}`));
  const output = one.outputs[place];
  if (!output) return make("div", {}, title, make("p", { className: "facts" }, "no text"));
  const [text, isTruncated, ...scores] = output;
  const facts = data.metrics.map((metric, i) => `${metric} ${scores[i].toFixed(2)}`);
  if (isTruncated) facts.push("cut off at the length limit");
  return make("div", {}, title, writing(text, "text"), make("p", { className: "facts" }, facts.join(" · ")));
}

// A text with its line ends; of a long one the beginning, and how long it is.
function writing(text, className) {
  const shown = textOf(text);
  const found = make("p", { className, textContent: shown || "(empty)", dir: "auto" });
  if (!shown) found.classList.add("hollow");
  if (!Array.isArray(text)) return found;
  return make("div", {}, found, make("p", { className: "facts" }, `the first ${shown.length.toLocaleString("en")} of ${text[1].toLocaleString("en")} characters`));
}
