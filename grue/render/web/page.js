// The page's state, stored in the address: #tab&sort=key.down&q=words&scale=100&rows=all&theme=dark&a=name&b=name

const tabs = all("#tabs a");
const panels = tabs.map((tab) => document.querySelector(tab.getAttribute("href")));
const names = tabs.map((tab) => tab.getAttribute("href").slice(1));
const search = document.getElementById("search");
const scale = document.getElementById("scale");
const theme = document.getElementById("theme");
const darkSystem = matchMedia("(prefers-color-scheme: dark)");
let state;
let fits; // whether each system matches the search

function readAddress() {
  const [tab, ...rest] = location.hash.slice(1).split("&");
  const values = new URLSearchParams(rest.join("&"));
  const [key, direction] = (values.get("sort") ?? "").split(/\.(?=up$|down$)/);
  const system = (name, otherwise) => {
    const found = board.systems.findIndex((system) => system.system === values.get(name));
    return found < 0 ? Math.min(otherwise, board.systems.length - 1) : found;
  };
  return {
    tab: Math.max(0, names.indexOf(decodeURIComponent(tab))),
    sort: direction ? { key, down: direction === "down" } : null,
    query: values.get("q") ?? "",
    isRaw: values.get("scale") !== "100",
    isAll: values.get("rows") === "all",
    theme: ["light", "dark"].find((name) => name === values.get("theme")) ?? null,
    a: system("a", 0),
    b: system("b", 1),
  };
}

function address() {
  const values = new URLSearchParams();
  if (state.sort) values.set("sort", `${state.sort.key}.${state.sort.down ? "down" : "up"}`);
  if (state.query) values.set("q", state.query);
  if (!state.isRaw) values.set("scale", "100");
  if (state.isAll) values.set("rows", "all");
  if (state.theme) values.set("theme", state.theme);
  if (board.systems.length > 1 && (names[state.tab] === "compare" || state.a !== 0 || state.b !== 1)) {
    values.set("a", board.systems[state.a].system);
    values.set("b", board.systems[state.b].system);
  }
  const text = values.toString();
  return `#${encodeURIComponent(names[state.tab])}${text && `&${text}`}`;
}

// Changes the state, the page and the address; the back button undoes a change of the tab.
function change(part) {
  const isStep = part.tab !== undefined && part.tab !== state.tab;
  state = { ...state, ...part };
  history[isStep ? "pushState" : "replaceState"](null, "", address());
  show(part);
}

function show(part) {
  if ("theme" in part) showTheme();
  if ("tab" in part) showTab();
  if ("query" in part) {
    search.value = state.query;
    fits = matches(state.query);
    dimPoints(fits);
    const found = fits.filter(Boolean).length;
    document.getElementById("said").textContent = state.query ? `${found} of ${board.systems.length} systems` : "";
  }
  if ("isRaw" in part) {
    showScale(state.isRaw);
    for (const button of all("button", scale)) button.setAttribute("aria-pressed", String(!!+button.dataset.raw === state.isRaw));
  }
  if (["tab", "sort", "query", "isAll"].some((key) => key in part)) arrange(panels[state.tab], state.sort, fits, state.isAll);
  if ("a" in part || "b" in part) compareSystems(state.a, state.b);
}

function showTab() {
  tabs.forEach((tab, i) => {
    tab.setAttribute("aria-selected", String(i === state.tab));
    tab.tabIndex = i === state.tab ? 0 : -1;
    panels[i].hidden = i !== state.tab;
  });
  const strip = tabs[0].parentElement;
  const tab = tabs[state.tab];
  strip.scrollLeft = tab.offsetLeft - strip.offsetLeft - (strip.clientWidth - tab.offsetWidth) / 2;
  drawSeeds(panels[state.tab]);
  scale.hidden = !all('table[data-table] th[data-key^="m:"]', panels[state.tab]).length;
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
      change({ tab: i });
    });
  });
  strip.addEventListener("keydown", (event) => {
    const last = tabs.length - 1;
    const moves = { ArrowRight: state.tab === last ? 0 : state.tab + 1, ArrowLeft: state.tab || last + 1, Home: 0, End: last };
    if (!(event.key in moves)) return;
    event.preventDefault();
    change({ tab: event.key === "ArrowLeft" ? moves.ArrowLeft - 1 : moves[event.key] });
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
namePoints();
makeTabs();
makeSortable(chooseSort, () => change({ isAll: true }));
makeTooltips();
makeDownloads();
fillSystems(() => change({ a: Number(firstSystem.value), b: Number(secondSystem.value) }));
search.addEventListener("input", () => change({ query: search.value }));
scale.addEventListener("click", (event) => "raw" in event.target.dataset && change({ isRaw: event.target.dataset.raw === "1" }));
theme.addEventListener("click", () => {
  const isDark = state.theme ? state.theme === "dark" : darkSystem.matches;
  change({ theme: isDark ? "light" : "dark" });
});
darkSystem.addEventListener("change", showTheme);
addEventListener("popstate", () => {
  state = readAddress();
  show(state);
});
document.getElementById("tools").hidden = false;
state = readAddress();
show(state);
