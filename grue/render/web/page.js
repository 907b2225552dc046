// The page's state, stored in the address: #tab&sort=key.down&q=words&scale=100&rows=all&theme=dark&a=name&b=name, with
// family=, start=, status= and costs=1 of the filters, #system=name, and #examples&task=&systems=&find=&order=&only=&example=

const tabs = all("#tabs a");
const SYSTEM = tabs.length; // the place of the page of a system, which has no tab
const panels = [...tabs.map((tab) => document.querySelector(tab.getAttribute("href"))), systemPanel];
const names = tabs.map((tab) => tab.getAttribute("href").slice(1));
const search = document.getElementById("search");
const scale = document.getElementById("scale");
const theme = document.getElementById("theme");
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
const OF_EXAMPLES = ["find", "order", "only", "example"];
const lost = document.getElementById("lost");
const TITLE = document.title;
const OPENING = firstPair();
const NAMES = ["sort", "q", "scale", "rows", "theme", "a", "b", ...CHOICES, "costs", "task", "systems", ...OF_EXAMPLES];
let state;
let fits; // whether each system fits search and filters

function unescaped(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return ""; // half an escape: no address of ours
  }
}

function readAddress(hash = location.hash) {
  const [first, ...rest] = hash.slice(1).split("&");
  const values = new URLSearchParams(rest.join("&"));
  const [key, direction] = (values.get("sort") ?? "").split(/\.(?=up$|down$)/);
  const place = (name, otherwise) => {
    const found = indexOf(values.get(name));
    return found < 0 ? Math.min(otherwise, board.systems.length - 1) : found;
  };
  const system = first.startsWith("system=") ? indexOf(unescaped(first.slice(7))) : -1;
  const of = (name) => values.get(name) ?? "";
  const known = { a: keys, b: keys, task: board.shown };
  const unknown = [...values].filter(([name, value]) => !NAMES.includes(name) || (value && known[name]?.includes(value) === false));
  const isPlace = !first || system >= 0 || names.includes(unescaped(first));
  return {
    unknown: [...(isPlace ? [] : [first]), ...unknown.map((pair) => pair.join("="))],
    tab: system >= 0 ? SYSTEM : Math.max(0, names.indexOf(unescaped(first))),
    system,
    sort: direction ? { key, down: direction === "down" } : null,
    query: of("q"),
    isRaw: values.get("scale") !== "100",
    isAll: values.get("rows") === "all",
    theme: ["light", "dark"].find((name) => name === values.get("theme")) ?? null,
    a: place("a", OPENING[0]),
    b: place("b", OPENING[1]),
    family: board.systems.some((one) => one.family === of("family")) ? of("family") : "",
    start: of("start") in STARTS ? of("start") : "",
    status: board.systems.some((one) => one.status === of("status")) ? of("status") : "",
    costs: values.get("costs") === "1",
    task: of("task"),
    outputs: values.has("systems") ? of("systems").split(" ").filter(Boolean) : null,
    ...Object.fromEntries(OF_EXAMPLES.map((name) => [name, of(name)])),
  };
}

function address() {
  const values = new URLSearchParams();
  const isExamples = names[state.tab] === "examples";
  if (state.sort) values.set("sort", `${state.sort.key}.${state.sort.down ? "down" : "up"}`);
  if (state.query) values.set("q", state.query);
  for (const key of CHOICES) if (state[key]) values.set(key, state[key]);
  if (state.costs) values.set("costs", "1");
  if (!state.isRaw) values.set("scale", "100");
  if (state.isAll) values.set("rows", "all");
  if (isExamples && state.task) values.set("task", state.task);
  if (isExamples && state.outputs) values.set("systems", state.outputs.join(" "));
  for (const key of isExamples ? OF_EXAMPLES : []) if (state[key]) values.set(key, state[key]);
  if (state.theme) values.set("theme", state.theme);
  if (board.systems.length > 1 && (names[state.tab] === "compare" || state.a !== OPENING[0] || state.b !== OPENING[1])) {
    values.set("a", keys[state.a]);
    values.set("b", keys[state.b]);
  }
  const text = values.toString();
  const place = state.tab === SYSTEM ? systemAddress(state.system) : encodeURIComponent(names[state.tab]);
  return `#${place}${text && `&${text}`}`;
}

// Changes the state, the page and the address; the back button undoes a change of the tab, system, task or example.
function change(part) {
  const isStep = ["tab", "system", "task", "example"].some((key) => key in part && part[key] !== state[key]);
  state = { ...state, ...part, unknown: [] };
  history[isStep ? "pushState" : "replaceState"](null, "", address());
  show(part);
}

const isAny = (part, ...keys) => keys.some((key) => key in part);

function show(part) {
  lost.hidden = !state.unknown.length;
  lost.textContent = lost.hidden ? "" : `This page has no ${state.unknown.join(", no ")}: the address is wrong or old.`;
  if ("theme" in part) showTheme();
  if (isAny(part, "tab", "system")) showTab();
  if (isAny(part, "query", ...CHOICES)) {
    search.value = state.query;
    const found = matches(state.query);
    fits = chosenBy(state).map((isChosen, i) => isChosen && found[i]);
    dimPoints(fits);
    const left = fits.filter(Boolean).length;
    document.getElementById("said").textContent = left < fits.length ? `${left} of ${board.systems.length} systems` : "";
  }
  if (isAny(part, "tab", "query", "costs", ...CHOICES)) showFilters(state, fits, panels[state.tab]);
  if (isAny(part, "tab", "costs")) showCosts(panels[state.tab], state.costs);
  if ("isRaw" in part) {
    showScale(state.isRaw);
    for (const button of all("button", scale)) button.setAttribute("aria-pressed", String(!!+button.dataset.raw === state.isRaw));
  }
  if (isAny(part, "tab", "sort", "query", "isAll", "costs", ...CHOICES)) arrange(panels[state.tab], state.sort, fits, state.isAll);
  if (isAny(part, "a", "b")) compareSystems(state.a, state.b);
  if (names[state.tab] === "examples" && isAny(part, "tab", "task", "outputs", ...OF_EXAMPLES)) showExamples(state);
  showEdges();
  fitPlots();
}

// A table that goes on at the right fades there.
const showEdge = (box) => box.classList.toggle("cut", box.scrollWidth - box.clientWidth - box.scrollLeft > 1);
const showEdges = () => all(".scroll").forEach(showEdge);

function showTab() {
  if (state.tab === SYSTEM) showSystem(state.system);
  panels.forEach((panel, i) => {
    panel.hidden = i !== state.tab;
  });
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === state.tab));
    tab.tabIndex = i === state.tab || (state.tab === SYSTEM && i === 0) ? 0 : -1;
  });
  const strip = tabs[0].parentElement;
  const tab = tabs[state.tab] ?? tabs[0];
  strip.scrollLeft = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
  drawSeeds(panels[state.tab]);
  scale.hidden = !all('table[data-table] th[data-key^="m:"]', panels[state.tab]).length;
  document.title = `${state.tab === SYSTEM ? `${board.systems[state.system].label}, ` : ""}${TITLE}`;
}

// Links within the page keep the theme, and are steps that the back button undoes.
function follow(event) {
  const link = event.target.closest?.('a[href^="#"]');
  if (!link || event.defaultPrevented || event.button || event.ctrlKey || event.metaKey || event.shiftKey || event.altKey) return;
  if (link.closest("#tabs")) return;
  event.preventDefault();
  if (link.className === "skip") return document.getElementById("content").focus();
  state = { ...readAddress(link.hash), theme: state.theme };
  history.pushState(null, "", address());
  show(state);
  scrollTo(0, Math.min(scrollY, document.getElementById("bar").offsetTop));
  document.getElementById(state.tab === SYSTEM ? "h-system" : "content").focus({ preventScroll: true });
}

function showTheme() {
  const isDark = state.theme ? state.theme === "dark" : darkSystem.matches;
  if (state.theme) document.documentElement.dataset.theme = state.theme;
  else delete document.documentElement.dataset.theme;
  theme.textContent = isDark ? "Light" : "Dark";
  theme.setAttribute("aria-label", `Use the ${isDark ? "light" : "dark"} theme`);
  for (const link of all(".suites a")) link.hash = state.theme ? `#overview&theme=${state.theme}` : "";
}

function makeTabs() {
  const strip = document.getElementById("tabs");
  strip.setAttribute("role", "tablist");
  tabs.forEach((tab, i) => {
    const panel = panels[i];
    tab.id = `tab-${names[i]}`;
    panel.id = `panel-${names[i]}`; // no longer what the address points at: the page is not to scroll to it
    tab.setAttribute("role", "tab");
    tab.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", tab.id);
    tab.addEventListener("click", (event) => {
      event.preventDefault();
      change({ tab: i, system: -1 });
    });
  });
  strip.addEventListener("keydown", (event) => {
    const last = tabs.length - 1;
    const moves = { ArrowRight: state.tab >= last ? 0 : state.tab + 1, ArrowLeft: state.tab || last + 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    change({ tab: event.key === "ArrowLeft" ? moves.ArrowLeft - 1 : moves[event.key], system: -1 });
    tabs[state.tab].focus();
  });
}

function chooseSort(table, key) {
  const low = lowFirst(table, key);
  const { sort } = state;
  const isChosen = sort ? sort.key === key : key === "rank";
  change({ sort: { key, down: isChosen ? !(sort?.down ?? false) : !low } });
}

readRaw();
linkSystems();
namePoints();
makeTabs();
makeTooltips();
makeSortable(chooseSort, () => change({ isAll: true }));
makeFilters((part) => {
  change(part);
  const table = part.costs && mainTable(panels[state.tab]);
  if (table) table.parentElement.scrollLeft = table.offsetWidth; // costs are the last columns
});
makeExamples(change);
makeDownloads();
fillSystems(() => change({ a: Number(firstSystem.value), b: Number(secondSystem.value) }));
search.addEventListener("input", () => {
  const isElsewhere = !mainTable(panels[state.tab]);
  change({ query: search.value, ...(isElsewhere ? { tab: 0, system: -1 } : {}) });
});
nothing.querySelector("button").addEventListener("click", () => {
  change({ family: "", start: "", status: "", query: "" });
  search.focus();
});
scale.addEventListener("click", (event) => "raw" in event.target.dataset && change({ isRaw: event.target.dataset.raw === "1" }));
theme.addEventListener("click", () => {
  const isDark = state.theme ? state.theme === "dark" : darkSystem.matches;
  change({ theme: isDark ? "light" : "dark" });
});
darkSystem.addEventListener("change", showTheme);
document.addEventListener("click", follow);
document.addEventListener("scroll", ({ target }) => target.classList?.contains("scroll") && showEdge(target), true);
const fit = () => [showEdges(), fitPlots()];
document.addEventListener("toggle", fit, true);
addEventListener("resize", fit);
addEventListener("popstate", () => {
  state = readAddress();
  show(state);
});
document.getElementById("tools").hidden = false;
state = readAddress();
show(state);
