// The data of the page: the embedded numbers, and the raw metrics in the tables.

const board = JSON.parse(document.getElementById("data").textContent);
const AXES = ["preference", "naturalness"];
const all = (selector, within = document) => [...within.querySelectorAll(selector)];
const inSvg = (name, attributes) => {
  const element = document.createElementNS("http://www.w3.org/2000/svg", name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
};
const taskIndex = new Map(board.tasks.map((task, index) => [task.name, index]));

// A system's cells come as [rank, preference by seed, naturalness by seed, failed seeds, seeds], the last two only if
// a seed failed or the seeds differ from those of the system's first task; scores are base64 of 3 bytes
// each, in units of 0.00001. A metric: name, axis, direction, range, reference; of diversity, the name alone.
for (const task of board.tasks) {
  task.metrics = task.metrics.map((metric) => (Array.isArray(metric) ? metric : [metric, "diversity", "higher", null, null]));
}
for (const system of board.systems) {
  system.label ??= system.system; // with what the name does not say: preset, backbone, and how it was asked
  system.standing ??= "ranked";
  system.seeds ??= [1, 2, 3, 4, 5];
  system.fixed ??= false;
  system.cells = system.cells.map((cell) => {
    if (!cell) return null;
    const [rank, preference, naturalness, failed = [], seeds = system.seeds] = cell;
    const [liked, natural] = [preference, naturalness].map((text) => {
      if (text === null) return null;
      const bytes = [...atob(text)].map((byte) => byte.charCodeAt(0));
      return seeds.map((_, i) => (65536 * bytes[3 * i] + 256 * bytes[3 * i + 1] + bytes[3 * i + 2]) / 100000);
    });
    return { rank, seeds, failed, preference: liked, naturalness: natural };
  });
}
// A system's preference on the metrics that its training on a task did not raise, as [value, their names].
function heldOut(index, task) {
  const [names, values] = board.held[task] ?? [];
  const held = values?.[index] ?? null;
  return typeof held === "number" ? [held, names] : held;
}

// What a system's runs on a task took until the kept update, as [tokens, reward calls, seconds, updates kept, parameters,
// prompts, generated tokens, steps], or 0, where nulls at the end are left out; a cost is the sum over all seeds, or [sum,
// how many seeds state it], or null; the updates are one number if all seeds have the same. What the whole runs took, as
// sums in the order of WHOLE, likewise.
const COSTS = { tokens: 0, calls: 1, seconds: 2, prompts: 5, generated: 6, steps: 7 };
const WHOLE = ["calls", "tokens", "seconds", "prompts", "generated", "steps"];
const spentOn = (index, task) => board.spent[task]?.[index] || null;

// What a seed's run took, {kept, whole}: until the kept update, and all of it, null if that is not known.
function costOn(index, task, cost) {
  const found = spentOn(index, task)?.[COSTS[cost]] ?? null;
  if (found === null) return null;
  const many = board.systems[index].cells[task].seeds.length;
  const [sum, seeds] = Array.isArray(found) ? found : [found, many];
  const whole = board.whole[task][index]?.[WHOLE.indexOf(cost)] ?? null;
  return { kept: sum / seeds, whole: whole === null ? null : whole / many };
}
function updatesOn(index, task) {
  const kept = spentOn(index, task)?.[3] ?? null;
  return Array.isArray(kept) || kept === null ? (kept ?? []) : board.systems[index].cells[task].seeds.map(() => kept);
}

// The cost of a seed's whole run, on a task or of all tasks together if every one of them states it: {mean, kept, isLeast},
// where only what was spent until the kept update is known of some, so that it is the least.
function costOf(index, table, cost) {
  const places = taskIndex.has(table) ? [taskIndex.get(table)] : board.tasks.map((_, i) => i).filter((i) => board.systems[index].cells[i]);
  const found = places.map((i) => costOn(index, i, cost));
  if (!found.length || !found.every(Boolean)) return null;
  const sum = (value) => found.reduce((total, one) => total + value(one), 0);
  return { mean: sum(({ kept, whole }) => whole ?? kept), kept: sum(({ kept }) => kept), isLeast: found.some(({ whole }) => whole === null) };
}

const costText = (cost, text) => (cost ? `${cost.isLeast ? "≥ " : ""}${text(cost.mean)}` : "–");

// Systems of one name are told apart by what they are: the key is what an address says.
const named = new Map();
const keys = board.systems.map(({ system, label, status, standing }) => {
  const isTwin = named.has(system);
  named.set(system, true);
  return isTwin ? `${label} (${status}, ${standing})` : system;
});
const indexOf = (key) => keys.indexOf(key);

const cellOf = (system, task) => system.cells[taskIndex.get(task)];
const meanOf = (values) => (values ? mean(values) : null);

const raw = board.tasks.map(() => new Map()); // task → system's index → metric → number, read from the tables once
const texts = board.tasks.map(() => new Map()); // the same as printed

// What the authors of a system say of it, from the table under Method.
const described = (index) => [...document.querySelector(`#described tr[data-r="${index}"]`).cells].map((cell) => cell.textContent.trim());

function readRaw() {
  for (const table of all("table[data-table]")) {
    const task = taskIndex.get(table.dataset.table);
    if (task === undefined) continue;
    const heads = all("thead th", table);
    for (const row of all("tr[data-r]", table)) {
      const found = raw[task].get(row.dataset.r) ?? {};
      const printed = texts[task].get(row.dataset.r) ?? {};
      heads.forEach((head, i) => {
        if (!head.dataset.key?.startsWith("m:")) return;
        const text = row.cells[i].textContent.trim();
        if (Number.isNaN(Number(text))) return;
        found[head.dataset.key.slice(2)] = Number(text);
        printed[head.dataset.key.slice(2)] = text;
      });
      raw[task].set(row.dataset.r, found);
      texts[task].set(row.dataset.r, printed);
    }
  }
}

// A raw value on the scale of its task file, 0 to 100, as in grue/tasks.py.
function scaled(value, [, , , range, reference]) {
  if (reference !== null) return 100 * Math.min(1, reference / value);
  return 100 * Math.min(1, Math.max(0, (value - range[0]) / (range[1] - range[0])));
}

// What a metric counts on a task: by its printed mean, or in tenths in points, where a scale is clipped or a reciprocal.
function pointsText(index, task, metric, text) {
  const tenths = board.systems[index].points?.[task]?.[board.tasks[task].metrics.indexOf(metric)];
  return (tenths === undefined ? scaled(Number(text), metric) : tenths / 10).toFixed(1);
}

// A rank as in the tables: 1= if another system has it, too.
const rankText = (rank, ranks) => `${rank}${ranks.filter((other) => other === rank).length > 1 ? "=" : ""}`;

// Each seed's preference: on a task, or its mean over the tasks if all of them have the same seeds.
function seedValues(system, table) {
  if (taskIndex.has(table)) return cellOf(system, table)?.preference ?? [];
  const counted = board.tasks.map((task) => task.metrics.some(([, axis]) => axis === "preference"));
  const cells = system.cells.filter((_, i) => counted[i]);
  if (cells.some((cell) => !cell?.preference || String(cell.seeds) !== String(system.seeds))) return [];
  return system.seeds.map((_, i) => mean(cells.map((cell) => cell.preference[i])));
}

// The value that a column sorts by; null is last in both directions.
function sortValue(index, table, key) {
  const system = board.systems[index];
  const cell = cellOf(system, table);
  if (key === "system") return system.system.toLowerCase();
  if (key.startsWith("t:")) return meanOf(cellOf(system, key.slice(2))?.preference);
  if (key.startsWith("m:")) return raw[taskIndex.get(table)].get(String(index))?.[key.slice(2)] ?? null;
  if (key === "held_out") return heldOut(index, taskIndex.get(table))?.[0] ?? null;
  if (key === "searched") return system.searched?.[taskIndex.get(table)] ?? null;
  if (key === "learned" || key === "iqm") return system[key] ?? null;
  if (key.startsWith("c:")) return costOf(index, table, key.slice(2))?.mean ?? null;
  if (key === "rank") return (cell ?? system).rank;
  return cell ? meanOf(cell[key]) : system[key];
}

// Whether a column is sorted from its lowest value when it is first chosen.
function lowFirst(table, key) {
  if (key === "rank" || key === "system" || key.startsWith("c:")) return true;
  const metric = board.tasks[taskIndex.get(table)]?.metrics.find(([name]) => `m:${name}` === key);
  return metric !== undefined && metric[1] !== "diversity" && metric[2] === "lower";
}
