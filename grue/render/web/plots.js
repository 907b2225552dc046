// Plots at the width that is there. They come drawn for 720 pixels, with 44 left and 12 right of the axes; on a narrower
// screen places across are moved together, and labels, whose letters keep their size, find new places.

const [WIDE, LEFT, RIGHT, TOP, BOTTOM] = [720, 44, 12, 12, 390];
const asDrawn = new Map(); // element → its attributes
const NEAR = [[9, 4], [-9, 4], [8, -6], [-8, -6], [8, 14], [-8, 14], [0, -9], [0, 18]];
const FAR = [18, 34, 54, 80].flatMap((dx) => [-22, 28, -38, 44, -54, 60, -70, 76].flatMap((dy) => [[dx, dy], [-dx, dy]]));

function fitPlots() {
  for (const svg of all(".plot svg")) {
    const room = svg.parentElement.clientWidth; // 0 where it is hidden
    const width = Math.min(room, WIDE);
    if (!room || width === svg.viewBox.baseVal.width) continue;
    svg.setAttribute("viewBox", `0 0 ${width} 430`);
    for (const line of all(".moved", svg)) line.remove();
    for (const element of all("path, text", svg)) {
      if (!asDrawn.has(element)) asDrawn.set(element, ["d", "x", "y", "class"].map((name) => [name, element.getAttribute(name)]));
      for (const [name, value] of asDrawn.get(element)) if (value !== null) element.setAttribute(name, value);
      element.toggleAttribute("hidden", false);
    }
    if (width < WIDE) squeeze(svg, (x) => LEFT + ((x - LEFT) * (width - LEFT - RIGHT)) / (WIDE - LEFT - RIGHT), width);
  }
}

function squeeze(svg, at, width) {
  const factor = at(LEFT + 1) - LEFT;
  const taken = []; // [left, top, right, bottom] of points, then of labels
  const whiskers = []; // likewise
  const points = new Map(); // system's index → the place of its point
  for (const path of all("path", svg)) {
    const d = path.getAttribute("d");
    const tip = Number(d.match(/L([\d.]+)/)?.[1] ?? 0);
    if (path.matches(".far path")) path.setAttribute("d", d.replace(/([ML])(-?[\d.]+)/g, (_, sign, x) => sign + (Number(x) + at(tip) - tip)));
    else if (path.matches(".leader")) path.toggleAttribute("hidden", true);
    else path.setAttribute("d", d.replace(/([MH])([\d.]+)/g, (_, sign, x) => sign + at(Number(x))).replace(/h(-?[\d.]+)/g, (_, x) => `h${x * factor}`));
    if (!path.dataset.r) continue;
    const [x, y] = path.getAttribute("d").match(/[\d.]+/g).map(Number);
    points.set(path.dataset.r, [x, y]);
    taken.push([x - 6, y - 6, x + 6, y + 6]);
    const [, , from, across] = path.getAttribute("d").match(/^M([\d.]+),[\d.]+h(-?[\d.]+)h([\d.]+)/)?.map(Number) ?? [];
    if (across) whiskers.push([x + from, y - 1, x + from + across, y + 1]);
    const [, low, up] = path.getAttribute("d").match(/,([\d.]+)v(-?[\d.]+)/)?.map(Number) ?? [];
    if (up) whiskers.push([x - 1, low + up, x + 1, low]);
  }
  for (const text of all(".tx, .axis[text-anchor]", svg)) text.setAttribute("x", at(+text.getAttribute("x")));
  for (const text of all("text[data-r]", svg)) place(svg, text, points.get(text.dataset.r), at, taken, whiskers, width);
}

// Puts a label at the first free place beside its point, or on a free line beside the arrow towards it, over whiskers if
// there is no other; else hides it.
function place(svg, text, point, at, taken, whiskers, width) {
  const length = text.getComputedTextLength();
  const isLeft = !text.matches(".end, .middle"); // as it is drawn, of its arrow
  const [x, y] = point ?? [at(Number(text.getAttribute("x")) + (isLeft ? -14 : 14)), Number(text.getAttribute("y"))];
  const lines = [0, 1, -1, 2, -2, 3, -3, 4, -4].map((line) => 14 * line);
  const beside = lines.flatMap((dy) => [[isLeft ? 14 : -14, dy], [isLeft ? -14 : 14, dy]]);
  const places = point ? [...NEAR, ...FAR] : beside;
  const tries = [[...taken, ...whiskers], taken].flatMap((boxes) => places.map((offset) => [boxes, ...offset]));
  for (const [boxes, dx, dy] of tries) {
    const left = x + dx - (dx < 0 ? length : dx ? 0 : length / 2);
    const box = [left, y + dy - 11, left + length, y + dy + 3];
    if (box[0] < LEFT || box[2] > width || box[1] < TOP || box[3] > BOTTOM) continue;
    if (boxes.some((other) => box[0] < other[2] && other[0] < box[2] && box[1] < other[3] && other[1] < box[3])) continue;
    taken.push(box);
    text.setAttribute("x", x + dx);
    text.setAttribute("y", y + dy);
    text.classList.remove("end", "middle");
    if (dx <= 0) text.classList.add(dx ? "end" : "middle");
    if (point && Math.abs(dy) > 20) svg.querySelector("g").before(inSvg("path", { class: "leader moved", d: `M${x},${y}L${x + dx},${y + dy - 4}` }));
    return;
  }
  text.toggleAttribute("hidden", true);
}
