// What is shown of the tables: systems by family, start and status, and what training took.

const FAMILIES = { supervised: "supervised", "rl-supervised": "RL, supervised start", "rl-backbone": "RL from the backbone", other: "other", reference: "references" };
const STARTS = { with: "supervised start", without: "no supervised start" };
const CHOICES = ["family", "start", "status"];
const filters = document.getElementById("filters");
const nothing = document.getElementById("nothing");
const costHeads = {
  tokens: ["Tokens", "what-tokens", amount],
  calls: ["Reward calls", "what-calls", amount],
  seconds: ["Time", "what-seconds", duration],
};

const startOf = (system) => (["rl-supervised", "supervised"].includes(system.family) ? "with" : "without");

// Returns whether each system has what the filters ask for; a reference has no start.
function chosenBy({ family, start, status }) {
  return board.systems.map(
    (system) =>
      (!family || system.family === family) &&
      (!start || (system.family !== "reference" && startOf(system) === start)) &&
      (!status || system.status === status),
  );
}

function makeFilters(choose) {
  const found = {
    family: Object.entries(FAMILIES).filter(([key]) => board.systems.some((system) => system.family === key)),
    start: Object.entries(STARTS),
    status: [...new Set(board.systems.map((system) => system.status))].map((status) => [status, status]),
  };
  for (const key of CHOICES) {
    const select = filters.querySelector(`[name=${key}]`);
    for (const [value, text] of found[key]) select.add(new Option(text, value));
    select.addEventListener("change", () => choose({ [key]: select.value }));
  }
  const costs = filters.querySelector("[name=costs]");
  costs.parentElement.hidden = !board.spent.some((task) => task.length);
  costs.addEventListener("change", () => choose({ costs: costs.checked }));
  document.getElementById("clear").addEventListener("click", () => choose({ family: "", start: "", status: "", query: "" }));
}

// Says what the filters are, above a panel's first table, and if nothing is left, that nothing is.
function showFilters(state, fits, panel) {
  const table = mainTable(panel);
  const hasTable = table !== null;
  table?.parentElement.before(filters, nothing);
  for (const key of CHOICES) filters.querySelector(`[name=${key}]`).value = state[key];
  filters.querySelector("[name=costs]").checked = state.costs;
  const isFiltered = state.query !== "" || CHOICES.some((key) => state[key]);
  document.getElementById("clear").hidden = !isFiltered;
  filters.hidden = !hasTable || !board.systems.length;
  nothing.hidden = !hasTable || !isFiltered || fits.some(Boolean);
  const words = CHOICES.map((key) => state[key] && (FAMILIES[state[key]] ?? STARTS[state[key]] ?? state[key])).filter(Boolean);
  if (state.query) words.unshift(`“${state.query}”`);
  if (hasTable) table.parentElement.hidden = !nothing.hidden;
  nothing.firstChild.textContent = `No system fits ${words.join(", ")}. `;
}

// Adds the columns of costs to a panel's tables once, and shows or hides them.
function showCosts(panel, isShown) {
  for (const found of tables) {
    if (found.table !== mainTable(panel)) continue;
    if (isShown && !found.hasCosts) addCosts(found);
    found.table.classList.toggle("thrifty", !isShown);
    found.isWide ??= found.table.parentElement.classList.contains("wide");
    found.table.parentElement.classList.toggle("wide", found.isWide || isShown);
  }
}

function addCosts(found) {
  found.hasCosts = true;
  for (const [cost, [title, tip]] of Object.entries(costHeads)) {
    const head = make("th", { scope: "col", className: "cost" }, title);
    head.dataset.key = `c:${cost}`;
    head.dataset.tip = tip;
    found.table.tHead.rows[0].append(head);
    found.heads.push(head);
    makeSortButton(found, head);
    addTooltip(head);
  }
  for (const { body, rows } of found.groups) {
    const title = body.querySelector(".g th");
    if (title) title.colSpan += 3;
    for (const row of rows) {
      const index = Number(row.dataset.r);
      for (const [cost, [, , text]] of Object.entries(costHeads)) row.append(make("td", { className: "cost", textContent: costText(costOf(index, found.name, cost), text) }));
    }
  }
}
