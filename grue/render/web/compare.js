// Two systems side by side: a small forest plot of the differences, task by task.

const firstSystem = document.getElementById("first");
const secondSystem = document.getElementById("second");

function fillSystems(choose) {
  if (board.systems.length < 2) return;
  document.getElementById("comparison").hidden = false;
  for (const select of [firstSystem, secondSystem]) {
    keys.forEach((key, index) => {
      const { system, label } = board.systems[index];
      select.add(new Option(key === system ? label : key, index));
    });
    select.addEventListener("change", choose);
  }
  document.getElementById("swap").addEventListener("click", () => {
    [firstSystem.value, secondSystem.value] = [secondSystem.value, firstSystem.value];
    choose();
  });
}

// The first two systems with a task in common, which the comparison opens on.
function firstPair() {
  const common = (a, b) => board.tasks.some((_, i) => a.cells[i]?.preference && b.cells[i]?.preference);
  for (const [first, a] of board.systems.entries()) {
    const second = board.systems.findIndex((b, other) => other > first && common(a, b));
    if (second > first) return [first, second];
  }
  return [0, Math.min(1, board.systems.length - 1)];
}

// Digits of 4 bits say with whom a system's seeds are pairs on a task, and from whom the board's ranks tell it apart.
const isSet = (digits, first, second) => ((parseInt(digits[first]?.[second >> 2] ?? "0", 16) >> (3 - (second & 3))) & 1) === 1;

// Returns a line for the mean over the tasks that both have, if more than one, and a line for each task.
function differences(a, b) {
  const pairs = (key) =>
    board.tasks.map((task, i) => {
      const [one, other] = [a.cells[i]?.[key], b.cells[i]?.[key]];
      const [first, second] = [a, b].map((system) => board.systems.indexOf(system));
      const paired = isSet(board.pairs[i], first, second);
      return one && other ? { a: one, b: other, fixedA: a.fixed, fixedB: b.fixed, paired } : null;
    });
  const columns = AXES.map(pairs);
  const lines = board.tasks.map((task, i) => ({ name: task.name, pairs: columns.map((column) => [column[i]].filter(Boolean)) }));
  const shared = board.tasks.filter((task, i) => a.cells[i] && b.cells[i]).length;
  if (shared > 1) {
    const name = shared === board.tasks.length ? "Mean over tasks" : `Mean over ${shared} tasks`;
    lines.unshift({ name, pairs: columns.map((column) => column.filter(Boolean)), isMean: true });
  }
  return lines.map((line) => ({ ...line, found: line.pairs.map((these) => (these.length ? compared(these) : null)) }));
}

function compared(pairs) {
  const { value, half } = difference(pairs, board.quantiles);
  const [a, b] = [mean(pairs.map((pair) => mean(pair.a))), mean(pairs.map((pair) => mean(pair.b)))];
  return { a, b, value, half, sure: half !== undefined && Math.abs(value) > half };
}

function compareSystems(first, second) {
  firstSystem.value = String(first);
  secondSystem.value = String(second);
  const [a, b] = [board.systems[first], board.systems[second]];
  if (!a || !b) return;
  const lines = a === b ? [] : differences(a, b);
  const reach = AXES.map((_, i) =>
    Math.max(1, ...lines.flatMap(({ found }) => (found[i] ? [Math.abs(found[i].value) + (found[i].half ?? 0)] : []))),
  );
  document.querySelector("#differences tbody").replaceChildren(...lines.filter(({ found }) => found.some(Boolean)).map((line) => differenceRow(line, reach)));
  document.getElementById("verdict").textContent = verdict(a, b, lines);
  document.getElementById("command").textContent = `grue compare ${shellWord(a.system)} ${shellWord(b.system)}`;
}

// A difference with its interval.
function endsOf({ value, half }, digits) {
  const [middle, low, high] = [value, value - half, value + half].map((end) => signed(end, digits));
  return `${middle} (${low} to ${high})`;
}

const shellWord = (text) => (/^[\w.+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`);
const signed = (value, digits = 1) => `${value < 0 ? "−" : "+"}${Math.abs(value).toFixed(digits)}`;

// Who is preferred, by the test of the board's ranks if both have one, else by the interval of this pair alone.
function verdict(a, b, lines) {
  if (a === b) return "Choose two different systems.";
  const first = lines.find(({ found }) => found[0]);
  if (!first) return "The two have no task in common.";
  const [whole, natural] = first.found;
  const where = first.isMean ? first.name.toLowerCase().replace("mean", "the mean") : first.name;
  if (whole.half === undefined) {
    return `${a.label} − ${b.label}: ${signed(whole.value)} preference on ${where}; no interval, since ${a.fixed && b.fixed ? "neither depends on a seed" : "one of them has a single seed"}.`;
  }
  const ranked = board.systems.filter((system) => system.rank !== null);
  const areRanked = ranked.includes(a) && ranked.includes(b);
  const isApart = areRanked ? isSet(board.apart, board.systems.indexOf(a), board.systems.indexOf(b)) : whole.sure;
  const isClose = whole.sure && Math.abs(whole.value) - whole.half < 0.05; // an end that would read 0.0
  const ends = endsOf(whole, isClose ? 2 : 1);
  const said = isApart ? `${whole.value > 0 ? a.label : b.label} is preferred` : "Too close to call";
  const pairs = plural((ranked.length * (ranked.length - 1)) / 2, "pair");
  const why = areRanked
    ? ` This interval alone leaves out 0, but the board, which corrects for its ${pairs}, does not tell the two apart.`
    : " This is by the interval of this pair alone: the board does not rank both.";
  const isAlone = whole.sure && !(areRanked && isApart);
  const isOpposed = isApart && natural?.sure && natural.value * whole.value < 0;
  const against = isOpposed ? ` In naturalness it is the other way round: ${endsOf(natural, 1)}, by this interval alone.` : "";
  return `${said}: ${a.label} − ${b.label} is ${ends} in preference on ${where}.${isAlone ? why : ""}${against}`;
}

function differenceRow({ name, found, isMean }, reach) {
  const row = document.createElement("tr");
  if (isMean) row.className = "mean";
  const head = Object.assign(document.createElement("th"), { textContent: name, scope: "row" });
  row.append(head, ...found.flatMap((one, i) => differenceCells(one, reach[i])));
  return row;
}

function differenceCells(one, reach) {
  const texts = one ? [one.a.toFixed(1), one.b.toFixed(1), signed(one.value) + (one.half === undefined ? "" : ` ± ${one.half.toFixed(1)}`)] : ["–", "–", "–"];
  const cells = texts.map((text) => Object.assign(document.createElement("td"), { textContent: text }));
  if (one?.sure) cells[2].className = "clear";
  const plot = document.createElement("td");
  plot.className = "w";
  if (one) plot.append(forest(one, reach));
  return [...cells, plot];
}

function forest({ value, half, sure }, reach) {
  const x = (number) => 95 + (88 * number) / reach;
  const svg = inSvg("svg", {});
  const bar = half === undefined ? "" : `M${x(value - half)},10H${x(value + half)}`;
  svg.append(inSvg("path", { d: `${bar}M${x(value)},5v10`, class: sure ? "sure" : "" }));
  return svg;
}
