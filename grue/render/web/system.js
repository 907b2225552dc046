// A page for a system: who made it and how, what its training took, every figure that it has, and its texts.

const systemPanel = document.getElementById("system");

const systemAddress = (index) => `system=${encodeURIComponent(keys[index]).replaceAll("%2B", "+")}`;

function showSystem(index) {
  const system = board.systems[index];
  const parts = [systemHead(system, index), systemCard(system, index)];
  const trained = trainingTable(system, index);
  if (trained) parts.push(make("h3", {}, "Training, as measured"), ...trained);
  parts.push(make("h3", {}, "Scores"), make("p", { className: "facts" }, `± is half of the ${Number((100 * board.level).toFixed(4))} % interval over seeds.`));
  parts.push(make("div", { className: "figures" }, ...board.tasks.flatMap((task, i) => (system.cells[i] ? [figures(system, index, task, i)] : []))));
  const missing = board.tasks.filter((_, i) => !system.cells[i]).map((task) => task.name);
  if (missing.length) parts.push(make("p", { className: "facts" }, `No results on ${missing.join(", ")}.`));
  systemPanel.replaceChildren(...parts.flat());
}

function systemHead(system, index) {
  const badges = [make("b", { className: system.status }, system.status)];
  if (system.standing !== "ranked") badges.push(make("b", {}, system.standing));
  const title = make("h2", { id: "h-system", tabIndex: -1 }, breakable(system.label), " ", ...badges);
  const ranks = board.systems.map((other) => other.rank).filter((rank) => rank !== null);
  const facts = [];
  if (system.rank !== null) facts.push(`rank ${rankText(system.rank, ranks)} among ${plural(ranks.length, "ranked system")}`);
  const half = system.interval ? ` ± ${((system.interval[1] - system.interval[0]) / 2).toFixed(1)}` : "";
  if (system.preference !== null) facts.push(`preference ${system.preference.toFixed(1)}${half}`);
  if (system.naturalness !== null) facts.push(`naturalness ${system.naturalness.toFixed(1)}`);
  const links = [make("a", { href: "#overview" }, "All systems")];
  const rival = Math.max(0, board.systems.findIndex((_, other) => other !== index));
  if (board.systems.length > 1) links.push(make("a", { href: `#compare&${new URLSearchParams({ a: keys[index], b: keys[rival] })}` }, "Compare"));
  const tasks = board.shown.filter((task) => cellOf(system, task));
  if (tasks.length) links.push(make("a", { href: `#examples&${new URLSearchParams({ task: tasks[0], systems: system.system })}` }, "Its texts"));
  const words = facts.join(", ");
  return [
    make("p", { className: "crumbs" }, ...links.flatMap((link, i) => (i ? [" · ", link] : [link]))),
    title,
    words ? make("p", { className: "lead" }, `${words[0].toUpperCase()}${words.slice(1)}.`) : null,
  ].filter(Boolean);
}

// The card: what its authors say, from the table under Method, and what its results record.
function systemCard(system, index) {
  const [, algorithm, backbone, authors, trainingData, budget, licence] = described(index);
  const link = document.querySelector(`#described tr[data-r="${index}"] th a`);
  const sizes = [...new Set(board.tasks.map((_, i) => spentOn(index, i)?.[4]).filter(Boolean))].sort((a, b) => a - b);
  const stated = system.size ? [system.size] : sizes;
  const failed = board.tasks.flatMap((task, i) => (system.cells[i]?.failed.length ? [`${task.name} ${system.cells[i].failed.join(", ")}`] : []));
  const seeds = [...new Set(system.cells.filter(Boolean).map((cell) => cell.seeds.join(", ")))];
  const runs = system.cells.reduce((sum, cell) => sum + (cell?.seeds.length ?? 0), 0);
  const rerun = system.reruns ? ` (${system.reruns} of ${plural(runs, "run")} drawn again)` : "";
  const record = system.log && board.published && isInside(system.log) ? make("a", { href: `../${system.log}` }, "the record") : system.log;
  const entries = {
    Algorithm: algorithm,
    Preset: system.preset,
    Family: FAMILIES[system.family],
    Backbone: backbone,
    Parameters: stated.map(amount).join(", "),
    Authors: authors,
    Licence: licence,
    Link: link ? make("a", { href: link.href, rel: "noopener nofollow" }, link.getAttribute("href")) : "",
    "Training data": trainingData,
    "Declared budget": budget,
    Status: make("span", {}, system.status, rerun, record ? ": " : "", record ?? ""),
    Seeds: seeds.length > 1 ? seeds.map((one) => `${one}`).join("; ") : seeds[0],
    "Failed seeds": failed.join("; ") || "none",
    "Made by grue": system.code.join(", "),
    "Made on": (system.machines ?? []).join("; "),
  };
  const found = Object.entries(entries).filter(([, value]) => value);
  return [make("dl", { className: "card" }, ...found.flatMap(([name, value]) => [make("dt", {}, name), make("dd", {}, value)]))];
}

// A path in the repository that does not lead out of it.
const isInside = (path) => /^[\w+-][\w.+/-]*$/.test(path) && !path.split("/").includes("..");

// Cost, heading, how it is written, and whether its column is there even if nothing is known.
const TRAINING = [
  ["tokens", "Tokens", amount, true],
  ["calls", "Reward calls", amount, true],
  ["prompts", "Prompts", amount, false],
  ["generated", "Tokens drawn", amount, false],
  ["steps", "Steps", amount, false],
  ["seconds", "Time", duration, true],
];

function trainingTable(system, index) {
  const lines = board.tasks.flatMap((task, i) => (spentOn(index, i) ? [[task.name, i]] : []));
  if (!lines.some(([, i]) => Object.keys(COSTS).some((cost) => costOn(index, i, cost)) || updatesOn(index, i).length)) return null;
  const both = (table, [cost, , text]) => {
    const found = costOf(index, table, cost);
    const isLess = found && !found.isLeast && text(found.kept) !== text(found.mean);
    return make("span", {}, costText(found, text), isLess ? make("i", {}, ` ${text(found.kept)}`) : null);
  };
  const kept = (i) => {
    const updates = updatesOn(index, i);
    const starts = updates.filter((update) => update === 0).length;
    if (!updates.length) return "–";
    return make("span", {}, updates.map((update) => update ?? "–").join(", "), starts ? make("i", {}, ` start kept${starts === updates.length ? "" : ` ${starts} of ${updates.length} times`}`) : null);
  };
  const columns = TRAINING.filter(([cost, , , isUsual]) => isUsual || lines.some(([, i]) => costOn(index, i, cost)));
  const rows = lines.map(([name, i]) => [name, ...columns.map((column) => both(name, column)), kept(i)]);
  if (rows.length > 1) rows.push(["All tasks", ...columns.map((column) => both("overview", column)), ""]);
  const table = textTable("spent", "Training cost of each task", ["Task", ...columns.map(([, title]) => title), "Update kept, by seed"], rows);
  if (rows.length > lines.length) table.tBodies[0].lastChild.className = "mean";
  return [
    scrolling("Training cost", table),
    make("p", { className: "facts" }, "What a seed's whole run took with its supervised start, averaged over seeds; in grey, what it had taken by the kept update, if that is less. ≥ marks costs up to the kept update, where results state no others. Reward calls are texts that were drawn and scored by the reward. Update 0 is the start itself: no later update was better on validation."),
  ];
}

// One task: the two axes with each seed, then every metric with half its interval, raw and from 0 to 100.
function figures(system, index, task, i) {
  const cell = system.cells[i];
  const rows = AXES.flatMap((axis) => (cell[axis] ? [[axis, meanText(cell[axis]), "", seedsText(cell, axis)]] : []));
  const held = heldOut(index, i);
  if (held) rows.push(["held-out", held[0].toFixed(1), "", held[1]]);
  const printed = texts[i].get(String(index)) ?? {};
  const scored = task.metrics.filter(([, axis]) => axis !== "diversity");
  for (const metric of task.metrics) {
    const [name, axis] = metric;
    if (!(name in printed)) continue;
    const half = halfWidth(system.spread[i][scored.indexOf(metric)], metric);
    const value = make("span", {}, printed[name], half === undefined ? null : make("i", {}, ` ± ${half.toFixed(decimalsOf(printed[name]))}`));
    rows.push([name, value, axis === "diversity" ? "" : pointsText(index, i, metric, printed[name]), axis]);
  }
  const table = textTable("every", `${task.name}: every figure`, ["Figure", "Mean", "0–100", "Axis, or each seed"], rows);
  const rank = cell.rank === null ? "" : ` · rank ${rankText(cell.rank, board.systems.map((other) => other.cells[i]?.rank))}`;
  const heading = make("h4", {}, make("a", { href: `#task-${encodeURIComponent(task.name)}` }, breakable(task.name)), make("small", {}, rank));
  const example = board.shown.includes(task.name)
    ? make("p", { className: "facts" }, make("a", { href: `#examples&${new URLSearchParams({ task: task.name, systems: system.system })}` }, `Its texts on ${task.name}`))
    : null;
  return make("section", {}, heading, scrolling(`${task.name}: every figure`, table), example);
}

const decimalsOf = (text) => text.split(".")[1]?.length ?? 0;

// Half an interval as a raw value; it comes in tenths of a point of the range, if there is one.
function halfWidth(spread, [, , , range]) {
  if (spread === null || spread === undefined) return undefined;
  return range ? (spread * Math.abs(range[1] - range[0])) / 1000 : spread;
}

function meanText(values) {
  const error = meanError(values, false);
  const half = error && studentQuantile(board.quantiles, 1 / error.degrees) * Math.sqrt(error.variance);
  return make("span", {}, mean(values).toFixed(1), half === undefined ? null : make("i", {}, ` ± ${half.toFixed(1)}`));
}

const seedsText = (cell, axis) => make("i", {}, cell[axis].map((value, seed) => (cell.failed.includes(cell.seeds[seed]) ? "failed" : value.toFixed(1))).join(" "));
