// A questionnaire: what is shown, what is answered, and what this browser keeps of it.
const study = JSON.parse(document.getElementById("data").textContent);
const { screens, questions } = study;
const byId = new Map(screens.map((screen) => [screen.id, screen]));
const place = "grue-study:" + study.study + ":" + study.annotator;
const get = (id) => document.getElementById(id);
const LONG = 600;
let at = -1;
let skipped = -1;
let kept = true;
let saved = true;

// --- what is kept ---

const isAnswer = (id, values) => byId.has(id) && values !== null && typeof values === "object" && !Array.isArray(values) &&
  Object.entries(values).every(([name, value]) => questions.some((question) => question.name === name && question.values.includes(value)));

function stored() {
  const text = localStorage.getItem(place);
  if (text === null) return {};
  try {
    const found = JSON.parse(text);
    const entries = Object.entries(found);
    if (entries.every(([id, values]) => isAnswer(id, values))) return found;
  } catch {}
  localStorage.setItem(place + ":damaged", text);
  return {};
}

function read() {
  try {
    return stored();
  } catch {
    kept = false;
    return {};
  }
}

let answers = read();

// Another tab may have answered other questions since: only what changed here is written over what is there.
function keep(changed) {
  saved = false;
  try {
    answers = { ...stored(), ...(kept ? {} : answers), ...changed };
    localStorage.setItem(place, JSON.stringify(answers));
    kept = true;
  } catch {
    answers = { ...answers, ...changed };
    kept = false;
  }
  get("warning").hidden = kept;
  get("warning").textContent = kept ? "" : "This browser keeps nothing of this page: save your answers to a file before you close it.";
  count();
}

const many = (number, one, several) => number + " " + (number === 1 ? one : several);
const isDone = (screen) => questions.every((question) => question.name in (answers[screen.id] ?? {}));
const openOnes = () => screens.filter((screen) => !isDone(screen));

function count() {
  const done = screens.length - openOnes().length;
  get("bar").value = done;
  get("count").textContent = done + " of " + screens.length;
}

// --- files ---

function save() {
  const list = screens.filter((screen) => answers[screen.id]).map((screen) => ({ screen: screen.id, values: answers[screen.id] }));
  const text = JSON.stringify({ schema: 1, study: study.study, annotator: study.annotator, answers: list }, null, 1) + "\n";
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([text], { type: "application/json" }));
  link.download = "answers-" + study.study + "-" + study.annotator + ".json";
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
  saved = true;
  say("Saved as " + link.download + ", with " + list.length + " of " + screens.length + " answered.");
}

function taken(text) {
  let found;
  try {
    found = JSON.parse(text);
  } catch {
    return say("This file was not saved by this page; nothing was changed.");
  }
  if (found?.study !== study.study || found.annotator !== study.annotator || !Array.isArray(found.answers)) {
    return say("This file belongs to another page than this one; nothing was changed.");
  }
  if (!found.answers.every((answer) => isAnswer(answer?.screen, answer?.values))) {
    return say("This file has answers that this page does not ask for; nothing was changed.");
  }
  const differs = ({ screen, values }) => Object.entries(values).some(([name, value]) => (answers[screen]?.[name] ?? value) !== value);
  const conflicts = found.answers.filter(differs).length;
  const ofFile = conflicts > 0 && confirm(many(conflicts, "answer differs", "answers differ") + " from what is here. OK: take what the file says. Cancel: keep what is here. All others are put together.");
  const changed = {};
  for (const { screen, values } of found.answers) {
    changed[screen] = ofFile ? { ...answers[screen], ...values } : { ...values, ...answers[screen] };
  }
  keep(changed);
  show(at);
  say(many(found.answers.length, "answer of the file was", "answers of the file were") + " put together with those here.");
}

function say(text) {
  get("said").textContent = text;
}

// --- what is shown ---

function element(tag, text, name) {
  const made = document.createElement(tag);
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function written(text) {
  const made = element("div", text.trim() ? text : "(no text)", text.trim() ? "text" : "text empty");
  made.dir = "auto";
  return made;
}

function shownText(text, index, all) {
  const box = document.createElement("div");
  const label = all.length > 1 ? study.label + " " + (index + 1) : study.label;
  box.append(element("h2", label), written(text));
  return box;
}

function asked(question, screen) {
  const field = document.createElement("fieldset");
  field.append(element("legend", question.text));
  const points = element("div", "", "points");
  question.values.forEach((value, index) => {
    const label = document.createElement("label");
    const input = document.createElement("input");
    input.type = "radio";
    input.name = question.name;
    input.value = index;
    input.checked = answers[screen.id]?.[question.name] === value;
    label.append(input, element("b", index + 1), element("span", question.anchors[index]));
    points.append(label);
  });
  field.append(points);
  field.addEventListener("change", (event) => {
    keep({ [screen.id]: { ...answers[screen.id], [question.name]: question.values[event.target.value] } });
    get("open").textContent = "";
    skipped = -1;
    say("");
  });
  return field;
}

function only(id) {
  for (const section of ["start", "screen", "end"]) get(section).hidden = section !== id;
}

function show(index) {
  at = Math.max(-1, Math.min(index, screens.length));
  count();
  if (at < 0) return only("start");
  if (at === screens.length) return finish();
  const screen = screens[at];
  const prompt = study.prompts[screen.prompt];
  get("h-screen").textContent = "Page " + (at + 1) + " of " + screens.length;
  get("prompt").textContent = prompt.trim() ? prompt : "(nothing)";
  get("texts").replaceChildren(...screen.texts.map(shownText));
  get("texts").className = screen.texts.length > 1 ? "pair" : "";
  get("screen").className = prompt.length > LONG || screen.texts.some((text) => text.length > 2 * LONG) ? "long" : "";
  get("questions").replaceChildren(...questions.map((question) => asked(question, screen)));
  get("open").textContent = "";
  only("screen");
  // What scrolls by itself must be reachable by keyboard.
  for (const text of document.querySelectorAll("#screen .text")) {
    if (text.scrollHeight > text.clientHeight) {
      text.tabIndex = 0;
      text.setAttribute("role", "region");
      text.setAttribute("aria-label", text.id === "prompt" ? get("given").querySelector("h2").textContent : study.label);
    } else {
      ["tabindex", "role", "aria-label"].forEach((name) => text.removeAttribute(name));
    }
  }
}

function finish() {
  const open = openOnes().length;
  get("h-end").textContent = open ? open + " of " + screens.length + " are open" : "All is answered. Thank you!";
  get("rest").textContent = open
    ? "You can answer them now or later; what you have answered counts in any case."
    : "Please save your answers to a file, and send it to whoever asked you.";
  get("missing").hidden = open === 0;
  get("finish").className = open ? "" : "main";
  only("end");
}

function go(index) {
  say("");
  skipped = -1;
  show(index);
  window.scrollTo(0, 0);
  document.querySelector("section:not([hidden]) h1").focus();
}

// --- moving and answering ---

function next() {
  const open = questions.findIndex((question) => !(question.name in (answers[screens[at].id] ?? {})));
  if (open >= 0 && skipped !== at) {
    skipped = at;
    get("open").textContent = "Not answered yet: “" + questions[open].text + "” Go on once more to leave it open.";
    return get("questions").children[open].querySelector("input").focus();
  }
  go(at + 1);
}

// A digit answers the question that has the focus, else the first open one, else the first.
function answer(digit) {
  const fields = [...get("questions").children];
  const isOpen = (field) => !field.querySelector(":checked");
  const field = fields.find((one) => one.contains(document.activeElement)) ?? fields.find(isOpen) ?? fields[0];
  const input = field.querySelectorAll("input")[digit - 1];
  if (!input) return;
  input.checked = true;
  input.dispatchEvent(new Event("change", { bubbles: true }));
  const following = fields[fields.indexOf(field) + 1] ?? fields.find(isOpen);
  (following?.querySelector(":checked") ?? following?.querySelector("input") ?? get("next")).focus();
}

get("form").addEventListener("submit", (event) => {
  event.preventDefault();
  next();
});
get("begin").addEventListener("click", () => go(Math.max(0, screens.findIndex((screen) => !isDone(screen)))));
get("about").addEventListener("click", () => go(-1));
get("back").addEventListener("click", () => go(at - 1));
get("return").addEventListener("click", () => go(screens.length - 1));
get("missing").addEventListener("click", () => go(screens.indexOf(openOnes()[0])));
get("save").addEventListener("click", save);
get("finish").addEventListener("click", save);
get("load").addEventListener("click", () => get("file").click());
get("file").addEventListener("change", async (event) => {
  const [file] = event.target.files;
  if (file) taken(await file.text());
  event.target.value = "";
});

document.addEventListener("keydown", (event) => {
  if (event.ctrlKey || event.altKey || event.metaKey || get("screen").hidden) return;
  if (event.key.length === 1 && event.key >= "1" && event.key <= "9" && !event.shiftKey) {
    event.preventDefault();
    answer(Number(event.key));
  } else if (event.key === "Enter" && event.shiftKey) {
    event.preventDefault();
    go(at - 1);
  } else if (event.key === "Enter" && document.activeElement.tagName !== "BUTTON") {
    event.preventDefault();
    next();
  }
});

window.addEventListener("storage", (event) => {
  if (event.key !== place) return;
  answers = { ...answers, ...read() };
  show(at);
});
window.addEventListener("beforeunload", (event) => {
  if (!kept && !saved) event.preventDefault();
});

if (Object.keys(answers).length) get("begin").textContent = "Go on";
if (!kept) keep({});
show(-1);
