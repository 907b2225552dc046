// Tables: sorted within each group, filtered by name, raw or scaled.

const LONG = 100; // rows of a table until all are asked for
const tables = all("table[data-table]").map((table) => ({
  table,
  name: table.dataset.table,
  heads: all("thead th[data-key]", table),
  groups: all("tbody", table).map((body) => ({ body, rows: all("tr[data-r]", body) })), // rows in their original order
}));

function makeSortable(choose, showAll) {
  for (const found of tables) {
    found.choose = choose;
    found.more = Object.assign(document.createElement("button"), { type: "button", className: "more", hidden: true });
    found.more.addEventListener("click", showAll);
    found.table.parentElement.after(found.more);
    for (const head of found.heads) makeSortButton(found, head);
  }
}

function makeSortButton({ name, choose }, head) {
  const button = document.createElement("button");
  button.type = "button";
  button.append(...head.childNodes);
  if (head.dataset.tip) button.setAttribute("aria-describedby", head.dataset.tip);
  button.addEventListener("click", () => choose(name, head.dataset.key));
  head.append(button);
}

// Every system's name opens its page.
function linkSystems() {
  for (const { groups } of tables) {
    for (const { rows } of groups) {
      for (const row of rows) {
        const head = row.querySelector("th");
        const name = head.firstChild;
        const link = make("a", { href: `#${systemAddress(Number(row.dataset.r))}` }, breakable(name.textContent.trim()));
        head.replaceChild(link, name);
        if (link.nextSibling) link.after(" ");
      }
    }
  }
}

// The table that a panel's filters and costs are of; that of diversity comes after it.
const mainTable = (panel) => panel.querySelector("table[data-table]");

// Sorts a panel's rows and shows those that match; of long tables only the first ones, unless isAll.
// sort: {key, down}, or null for the original order; fits: whether each system matches the search.
function arrange(panel, sort, fits, isAll) {
  for (const found of tables) {
    const { table, name, heads, groups } = found;
    if (!panel.contains(table)) continue;
    const chosen = sort && heads.find((head) => head.dataset.key === sort.key);
    for (const head of heads) head.removeAttribute("aria-sort");
    if (chosen) chosen.setAttribute("aria-sort", sort.down ? "descending" : "ascending");
    else heads.find((head) => head.dataset.key === "rank")?.setAttribute("aria-sort", "ascending");
    let left = isAll ? Infinity : LONG;
    let fitting = 0;
    for (const group of groups) {
      const ordered = chosen ? ordering(group.rows, name, sort) : group.rows;
      const fit = ordered.filter((row) => fits[row.dataset.r]);
      const shown = new Set(group.body.className === "reference" ? fit : fit.slice(0, left));
      const place = group.body.nextSibling;
      group.body.remove(); // detached rows move faster
      for (const row of ordered) row.hidden = !shown.has(row);
      group.body.append(...ordered);
      group.body.hidden = group.rows.length > 0 && !shown.size;
      table.insertBefore(group.body, place);
      left -= Math.min(left, fit.length);
      fitting += fit.length;
    }
    found.more.hidden = isAll || fitting <= LONG;
    found.more.textContent = `Show all ${fitting}`;
  }
}

function ordering(rows, name, { key, down }) {
  const keyed = rows.map((row, place) => ({ row, place, value: sortValue(Number(row.dataset.r), name, key) }));
  const sign = down ? -1 : 1;
  keyed.sort((a, b) => {
    if (a.value === b.value) return a.place - b.place;
    if (a.value === null || b.value === null) return a.value === null ? 1 : -1;
    return a.value < b.value ? -sign : sign;
  });
  return keyed.map((item) => item.row);
}

// Returns which systems have the words of the query in name, algorithm, backbone or status.
function matches(query) {
  const words = query.toLowerCase().split(/\s+/).filter(Boolean);
  return board.systems.map((system, index) => {
    const [, algorithm, backbone] = described(index);
    const text = `${system.label} ${algorithm} ${backbone} ${system.status} ${system.standing}`.toLowerCase();
    return words.every((word) => text.includes(word));
  });
}

function dimPoints(fits) {
  for (const mark of all(".plot [data-r]")) mark.classList.toggle("dim", !fits[mark.dataset.r]);
}

const rawTexts = new Map(); // cell → its original text

function showScale(isRaw) {
  if (isRaw && rawTexts.size === 0) return;
  for (const { name, table, heads } of tables) {
    const task = taskIndex.get(name);
    const scored = board.tasks[task]?.metrics.filter(([, axis]) => axis !== "diversity") ?? [];
    const chosen = scored.map(([metric]) => heads.find((head) => head.dataset.key === `m:${metric}`));
    const columns = chosen.map((head) => head?.cellIndex);
    chosen.forEach((head, i) => {
      const arrow = head?.querySelector("i"); // once scaled, higher is better everywhere
      if (arrow) arrow.textContent = isRaw && scored[i][2] === "lower" ? "↓" : "↑";
    });
    for (const row of all("tr[data-r]", table)) {
      columns.forEach((column, i) => {
        if (column === undefined) return;
        const cell = row.cells[column];
        if (!rawTexts.has(cell)) rawTexts.set(cell, cell.textContent);
        const text = rawTexts.get(cell);
        cell.textContent = isRaw || Number.isNaN(Number(text)) ? text : pointsText(row.dataset.r, task, scored[i], text);
      });
    }
  }
}

// Once for each panel: lines of ticks and references down the column of whiskers, and a dot for each seed. A dot is a
// stroke of length 0 with round ends.
function drawSeeds(panel) {
  for (const { table, name } of tables) {
    if (!panel.contains(table) || !table.dataset.ticks) continue;
    table.style.setProperty("--lines", [...lines(table.dataset.references, "--mark"), ...lines(table.dataset.ticks, "--faint")].join());
    const [low, high] = [Number(table.dataset.low), Number(table.dataset.high)];
    for (const svg of all("td svg", table)) {
      const values = seedValues(board.systems[svg.closest("tr").dataset.r], name);
      const places = values.filter((value) => value >= low && value <= high).map((value) => 6 + (178 * (value - low)) / (high - low));
      const path = places.map((place) => `M${place.toFixed(1)},10h0`).join("");
      if (values.length > 1) svg.append(inSvg("path", { d: path, class: "seeds" }));
    }
    delete table.dataset.ticks;
  }
}

const lines = (places, colour) =>
  places.split(" ").filter(Boolean).map((place) => `linear-gradient(var(${colour}) 0 0) ${place}px 0 / 1px 100% no-repeat`);

// The name of every point on hover; the tables have them, too.
function namePoints() {
  for (const mark of all(".plot path[data-r]")) {
    const system = board.systems[mark.dataset.r];
    const cell = system.cells[taskIndex.get(mark.closest("section").dataset.task ?? "")];
    const [preference, naturalness] = AXES.map((axis) => (cell ? meanOf(cell[axis]) : system[axis]));
    const words = `${system.label}: preference ${preference?.toFixed(1) ?? "–"}, naturalness ${naturalness?.toFixed(1) ?? "–"}`;
    mark.append(Object.assign(inSvg("title", {}), { textContent: words }));
  }
}
