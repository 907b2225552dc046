// The page's numbers as files, made in the browser: nothing is fetched.

function makeDownloads() {
  document.getElementById("downloads").hidden = false;
  for (const button of all("#downloads button")) {
    button.addEventListener("click", () => {
      const [type, text] = { csv: ["text/csv", csv], json: ["application/json", json], bib: ["text/plain", bibtex] }[button.dataset.form];
      const link = document.createElement("a");
      link.href = URL.createObjectURL(new Blob([text()], { type: `${type};charset=utf-8` }));
      link.download = `grue-leaderboard-${board.suite}.${button.dataset.form}`;
      link.click();
      setTimeout(() => URL.revokeObjectURL(link.href), 10000);
    });
  }
}

const bibtex = () => `${document.getElementById("bibtex").textContent}\n`;

// The systems with all keys, the raw metrics as in the tables, and what a run took, the mean over
// seeds: until the kept update, and the whole run.
function spelledOut() {
  return board.systems.map(({ cells, about, fixed, seeds, spread, ...system }, index) => ({
    ...system,
    tasks: Object.fromEntries(
      board.tasks.flatMap((task, i) => {
        const metrics = raw[i].get(String(index)) ?? {};
        const costs = (which) => Object.fromEntries(Object.keys(COSTS).map((cost) => [cost, costOn(index, i, cost)?.[which] ?? null]));
        return cells[i] ? [[task.name, { ...cells[i], metrics, training: costs("kept"), whole: costs("whole"), updates: updatesOn(index, i) }]] : [];
      }),
    ),
  }));
}

function json() {
  const { quantiles, pairs, apart, held, spent, whole, shown, ...numbers } = board;
  return `${JSON.stringify({ ...numbers, systems: spelledOut() }, null, 1)}\n`;
}

// One line for each number, as tidy data.
function csv() {
  const lines = [["suite", "system", "status", "standing", "task", "measure", "seed", "value"]];
  for (const system of spelledOut()) {
    const add = (...rest) => lines.push([board.suite, system.label, system.status, system.standing, ...rest]);
    for (const key of ["rank", "preference", "naturalness"]) if (system[key] !== null) add("", key, "", system[key]);
    if (system.interval) system.interval.forEach((end, i) => add("", i ? "preference high" : "preference low", "", end));
    for (const [name, task] of Object.entries(system.tasks)) {
      if (task.rank !== null) add(name, "rank", "", task.rank);
      for (const key of ["preference", "naturalness"]) task[key]?.forEach((value, i) => add(name, key, task.seeds[i], value));
      for (const [metric, value] of Object.entries(task.metrics)) add(name, metric, "", value);
      for (const key of ["training", "whole"]) for (const [cost, value] of Object.entries(task[key])) if (value !== null) add(name, `${key}: ${cost}`, "", value);
    }
  }
  return lines.map((line) => `${line.map(csvCell).join(",")}\r\n`).join("");
}

// A text that a spreadsheet would run as a formula gets an apostrophe before it.
function csvCell(value) {
  if (typeof value === "number") return String(value);
  const text = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(text) ? `"${text.replaceAll('"', '""')}"` : text;
}
