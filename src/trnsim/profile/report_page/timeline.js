// The timeline: lanes, drawing, pointer and keys. Follows page.js in the same script element.

// Lanes and the window

/** @returns {Lane[]} */
function makeLanes() {
  const order = [...new Set([...ENGINES, ...data.distinct.map((one) => one.engine.split(" ")[0])])];
  const which = data.distinct.map((one) => order.indexOf(one.engine.split(" ")[0]));
  /** @type {number[][]} */
  const found = order.map(() => []);
  for (let i = 0; i < count; i++) found[which[spans.which[i]]].push(i);
  const used = found.filter((indices) => indices.length);
  laneOfDistinct = which.map((at) => used.indexOf(found[at]));
  used.forEach(sortByStart);
  const height = Math.round(Math.min(Math.max(240 / Math.max(used.length, 1), 40), 62));
  return used.map((indices, at) => {
    let longest = 0;
    for (const i of indices) longest = Math.max(longest, spans.busy[i] + spans.latency[i]);
    return { label: distinct(indices[0]).engine, indices, height, top: AXIS + at * height, longest };
  });
}

/**
 * A DMA takes the first gap that is long enough, so it may start before what was issued before it.
 * @param {number[]} indices
 */
function sortByStart(indices) {
  for (let k = 1; k < indices.length; k++) {
    if (spans.start[indices[k]] < spans.start[indices[k - 1]]) {
      indices.sort((i, j) => spans.start[i] - spans.start[j] || i - j);
      return;
    }
  }
}

/** @param {number} i an instruction */
const laneOf = (i) => lanes[laneOfDistinct[spans.which[i]]];

/** What is drawn under the lanes: quantities in steps. @returns {Level[]} */
function makeLevels() {
  const found = [{ name: "HBM", highest: 0, words: (/** @type {number} */ n) => rate(n, "B/s"), capacity: data.roofline.hbm_bytes_per_s,
    time: data.hbm.time, values: data.hbm.bytes_per_s }];
  for (const memory of data.memories) {
    found.push({ name: `${memory.name} in use`, highest: 0, words: bytes, capacity: memory.capacity_bytes,
      time: memory.time, values: memory.bytes });
  }
  found.forEach((level) => { level.highest = level.values.reduce((most, n) => Math.max(most, n), 0); });
  return found;
}

/** Width of the timeline's plot; `draw` measures it once, as each measure may lay the page out again. */
let measured = 1;
const plotWidth = () => measured;
/** @param {number} ns */
const toX = (ns) => GUTTER + (ns - state.from) / (state.to - state.from) * plotWidth();
/** @param {number} x */
const toTime = (x) => state.from + (x - GUTTER) / plotWidth() * (state.to - state.from);

/** @param {number} from @param {number} to */
function show(from, to) {
  const whole = Math.max(data.device_ns, 1);
  const width = Math.min(Math.max(to - from, 2), whole * 1.02);
  state.from = Math.min(Math.max(from, -0.01 * whole), 1.01 * whole - width);
  state.to = state.from + width;
  draw();
}
/** @param {number} factor @param {number} at */
function zoom(factor, at = (state.from + state.to) / 2) {
  show(at - (at - state.from) * factor, at + (state.to - at) * factor);
}
/** @param {number} share of the window */
function pan(share) {
  const step = share * (state.to - state.from);
  show(state.from + step, state.to + step);
}
function fit() { show(-0.01 * data.device_ns, 1.01 * data.device_ns); }

/**
 * First span of the lane that may reach into the window; a lane's spans are in order of start.
 * @param {Lane} lane @param {number} from
 */
function firstVisible(lane, from) {
  let low = 0, high = lane.indices.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (spans.start[lane.indices[middle]] < from) low = middle + 1; else high = middle;
  }
  return low;
}

// Drawing

function draw() {
  if (state.isLoading) return;
  measured = Math.max(canvas.clientWidth - GUTTER - EDGE, 1);
  const height = AXIS + lanes.length * LANE + levels.length * (TRACK + GAP) + GAP;
  const scale = window.devicePixelRatio || 1;
  canvas.style.height = `${height}px`;
  canvas.width = Math.round(canvas.clientWidth * scale);
  canvas.height = Math.round(height * scale);
  const pen = /** @type {Pen} */ (canvas.getContext("2d"));
  pen.scale(scale, scale);
  pen.font = "12px system-ui, sans-serif";
  pen.textBaseline = "middle";
  drawAxis(pen, height);
  const drawn = { rectangles: 0, instructions: 0 };
  pen.save();
  pen.beginPath();
  pen.rect(GUTTER, 0, plotWidth() + EDGE, height);
  pen.clip();
  lanes.forEach((lane) => drawLane(pen, lane, drawn));
  drawEdges(pen);
  drawCause(pen);
  levels.forEach((level, at) => drawLevel(pen, level, levelTop(at)));
  pen.restore();
  drawLabels(pen);
  drawMaps();
  byId("range").textContent = markTexts([Math.max(state.from, 0), state.to], (state.to - state.from) / 100).join(" to ");
  Object.assign(canvas.dataset, { drawnSpans: drawn.rectangles, visibleInstructions: drawn.instructions,
    fromNs: state.from, toNs: state.to });
}
/** @param {number} at */
const levelTop = (at) => AXIS + lanes.length * LANE + GAP + at * (TRACK + GAP);

/** @param {Pen} pen @param {number} height */
function drawAxis(pen, height) {
  const wanted = (state.to - state.from) / Math.max(plotWidth() / 104, 1);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].map((n) => n * power).find((n) => n >= wanted) || 10 * power;
  const marks = [];
  for (let k = Math.ceil(Math.max(state.from, 0) / step - 1e-9); k * step <= state.to; k++) marks.push(k * step);
  const texts = markTexts(marks, step);
  canvas.dataset.marks = texts.join("|");
  marks.forEach((at, k) => {
    pen.fillStyle = theme("grid");
    pen.fillRect(toX(at), AXIS - 4, 1, height - AXIS);
    pen.fillStyle = theme("soft");
    const fits = toX(at) + 3 + pen.measureText(texts[k]).width < canvas.clientWidth;
    if (fits) pen.fillText(texts[k], toX(at) + 3, AXIS / 2 - 1);
  });
}

/**
 * Times of an axis in one unit, with as many digits as tell its steps apart.
 * @param {number[]} marks @param {number} step
 */
function markTexts(marks, step) {
  const [size, unit] = unitOf(marks[marks.length - 1] || 1, TIMES);
  const digits = Math.min(Math.max(-Math.floor(Math.log10(step / size) + 1e-9), 0), 9);
  return marks.map((at) => (at ? `${(at / size).toFixed(digits)} ${unit}` : "0"));
}

/** @param {Pen} pen */
function drawLabels(pen) {
  const shares = new Map(data.summary.engines.map((use) => [use.engine, use.active_share]));
  for (const lane of lanes) {
    pen.fillStyle = theme("ink");
    pen.fillText(lane.label, 0, lane.top + LANE / 2 - 7);
    pen.fillStyle = theme("soft");
    pen.fillText(`${percent(shares.get(lane.label) || 0)} active`, 0, lane.top + LANE / 2 + 8);
  }
  levels.forEach((level, at) => {
    const top = levelTop(at) + TRACK / 2;
    pen.fillStyle = theme("ink");
    pen.fillText(level.name, 0, top - 14);
    // Memory can be over: the schedule does not bound how many buffers live at once.
    const isOver = level.highest > level.capacity;
    pen.fillStyle = theme(isOver ? "critical" : "soft");
    pen.fillText(`${isOver ? "over: " : ""}to ${level.words(level.highest)}`, 0, top + 1);
    pen.fillText(`of ${level.words(level.capacity)}`, 0, top + 16);
  });
}

// Rectangles: spans of the lane that touch the window. Spans under a pixel are added up in columns
// of BIN pixels, drawn as high as the share of the column in which the engine is busy.
const BIN = 3;
/** @param {Lane} lane @param {Drawn} drawn @returns {Box[]} */
function rectangles(lane, drawn) {
  const found = [], perNs = plotWidth() / (state.to - state.from), { from, to } = state, { start, busy, latency } = spans;
  /** @type {Box | null} */
  let last = null;
  for (let at = firstVisible(lane, from - lane.longest); at < lane.indices.length; at++) {
    const i = lane.indices[at], begin = start[i];
    if (begin > to) break;
    if (begin + busy[i] + latency[i] < from) continue;
    drawn.instructions++;
    const left = GUTTER + (begin - from) * perNs, width = busy[i] * perNs;
    const chosen = spans.line[i] === state.line, bin = width < 1 ? Math.floor(left / BIN) : null;
    if (bin !== null && last && last.bin === bin) {
      last.covered += width;
      last.critical ||= isCritical[i];
      last.chosen ||= chosen;
      continue;
    }
    last = { i, left, right: left + width, bin, covered: width, critical: isCritical[i], chosen };
    if (bin !== null) [last.left, last.right] = [bin * BIN, (bin + 1) * BIN];
    found.push(last);
  }
  drawn.rectangles += found.length;
  return found;
}

/** @param {Pen} pen @param {Lane} lane @param {Drawn} drawn */
function drawLane(pen, lane, drawn) {
  const fill = colour(lane.label), ink = theme("on-span"), mark = theme("critical");
  const showCritical = byId("show-critical").checked;
  const top = lane.top + 3, height = LANE - 11;
  pen.fillStyle = theme("grid");
  pen.fillRect(GUTTER, lane.top + LANE - 2, plotWidth() + EDGE, 1);
  for (const box of rectangles(lane, drawn)) {
    const isOne = box.bin === null;
    const width = Math.max(box.right - box.left - (isOne ? 0.6 : 0), 1);
    const tall = isOne ? height : Math.max(Math.min(box.covered / BIN, 1) * height, 2);
    pen.globalAlpha = state.line < 0 || box.chosen ? 1 : 0.18;
    pen.fillStyle = fill;
    pen.fillRect(box.left, top + height - tall, width, tall);
    if (isOne) drawTail(pen, box, top + height / 2);
    if (showCritical && box.critical) {
      pen.fillStyle = mark;
      pen.fillRect(box.left, top + height + 1, width, 3);
    }
    if (!isOne) continue;
    drawName(pen, box, ink, top + height / 2);
    if (box.i === state.selected) outline(pen, box, top, height, theme("ink"));
    else if (box.i === state.hover) outline(pen, box, top, height, theme("accent"));
  }
  pen.globalAlpha = 1;
}

/** @param {Pen} pen @param {Box} box @param {number} middle */
function drawTail(pen, box, middle) {
  const end = toX(readable(box.i));
  if (end - box.right < 2) return;
  const alpha = pen.globalAlpha;
  pen.globalAlpha = alpha * 0.5;
  pen.fillRect(box.right, middle - 1.5, end - box.right, 3);
  pen.fillRect(end - 1, middle - 4, 1, 8);
  pen.globalAlpha = alpha;
}

/** @param {Pen} pen @param {Box} box @param {string} ink @param {number} middle */
function drawName(pen, box, ink, middle) {
  const left = Math.max(box.left, GUTTER), width = box.right - left - 8;
  if (width < 24) return;
  const name = distinct(box.i).opcode;
  const words = pen.measureText(name).width <= width ? name : "";
  pen.fillStyle = ink;
  pen.fillText(words, left + 4, middle + 1);
}

/** @param {Pen} pen @param {Box} box @param {number} top @param {number} height @param {string} style */
function outline(pen, box, top, height, style) {
  pen.strokeStyle = style;
  pen.lineWidth = 2;
  pen.strokeRect(box.left - 1, top - 1, Math.max(box.right - box.left, 2) + 1, height + 2);
}

// The edges that the kernel asks for: a semaphore from the end of its producer, an order of issue
// from its start (dotted). Edges outside of the window are left out.
/** @param {Pen} pen */
function drawEdges(pen) {
  let drawn = 0;
  for (const edge of data.edges || []) {
    for (const [consumer, producer] of edge.pairs) {
      const isSemaphore = edge.kind === "runtime";
      const x0 = toX(isSemaphore ? readable(producer) : spans.start[producer]), x1 = toX(spans.start[consumer]);
      if (Math.max(x0, x1) < GUTTER || Math.min(x0, x1) > GUTTER + plotWidth() || drawn >= MOST_EDGES) continue;
      drawn++;
      drawArrow(pen, x0, laneOf(producer).top + LANE / 2 - 2, x1, laneOf(consumer).top + LANE / 2 - 2, isSemaphore);
    }
  }
  canvas.dataset.drawnEdges = String(drawn);
}
const MOST_EDGES = 200;

/** @param {Pen} pen @param {number} x0 @param {number} y0 @param {number} x1 @param {number} y1 @param {boolean} isSolid */
function drawArrow(pen, x0, y0, x1, y1, isSolid) {
  // Within a lane it is an arc above the names.
  const bend = y0 === y1 ? LANE * 0.42 : 0, angle = bend ? Math.PI / 3 : Math.atan2(y1 - y0, x1 - x0);
  pen.strokeStyle = pen.fillStyle = theme("accent");
  pen.lineWidth = 2;
  pen.setLineDash(isSolid ? [] : [2, 3]);
  pen.beginPath();
  pen.moveTo(x0, y0);
  if (bend) pen.quadraticCurveTo((x0 + x1) / 2, y0 - 2 * bend, x1, y1);
  else pen.lineTo(x1, y1);
  pen.stroke();
  pen.setLineDash([]);
  pen.beginPath();
  pen.moveTo(x1, y1);
  for (const side of [-0.4, 0.4]) pen.lineTo(x1 - 9 * Math.cos(angle + side), y1 - 9 * Math.sin(angle + side));
  pen.closePath();
  pen.fill();
}

/** From the instruction that the selected one waited for. @param {Pen} pen */
function drawCause(pen) {
  const i = state.selected, cause = i < 0 ? -1 : spans.waited_for[i];
  if (cause < 0 || toX(busyUntil(i)) - toX(spans.start[i]) < 1) return;
  /** @param {number} j an instruction */
  const middle = (j) => laneOf(j).top + LANE / 2 - 2;
  const isEngine = Math.abs(busyUntil(cause) - spans.start[i]) < 0.05;
  const x0 = toX(isEngine ? busyUntil(cause) : readable(cause)), x1 = toX(spans.start[i]);
  pen.strokeStyle = theme("ink");
  pen.lineWidth = 1.5;
  pen.setLineDash([4, 3]);
  pen.beginPath();
  pen.moveTo(x0, middle(cause));
  pen.lineTo(x1, middle(cause));
  pen.lineTo(x1, middle(i));
  pen.stroke();
  pen.setLineDash([]);
}

/** @param {Pen} pen @param {Level} level @param {number} top */
function drawLevel(pen, level, top) {
  const most = Math.max(level.highest, 1), bottom = top + TRACK;
  /** @param {number} n */
  const y = (n) => bottom - n / most * (TRACK - 4);
  pen.beginPath();
  pen.moveTo(toX(0), bottom);
  level.time.forEach((at, k) => {
    pen.lineTo(toX(at), y(k ? level.values[k - 1] : 0));
    pen.lineTo(toX(at), y(level.values[k]));
  });
  pen.lineTo(toX(data.device_ns), bottom);
  pen.closePath();
  pen.fillStyle = theme("memory");
  pen.globalAlpha = 0.4;
  pen.fill();
  pen.globalAlpha = 1;
  pen.fillRect(GUTTER, bottom, plotWidth() + EDGE, 1);
  if (most > level.capacity) {
    pen.fillStyle = theme("critical");
    pen.fillRect(GUTTER, y(level.capacity), plotWidth() + EDGE, 1.5);
  }
}

// Pointer and keys

/** @param {number} x @param {number} y */
function spanAt(x, y) {
  const lane = lanes.find((l) => y >= l.top && y < l.top + LANE);
  if (!lane || x < GUTTER) return -1;
  const at = toTime(x), slack = 3 / plotWidth() * (state.to - state.from);
  for (let k = firstVisible(lane, at + slack) - 1; k >= 0; k--) {
    const i = lane.indices[k];
    if (busyUntil(i) + slack >= at) return i;
    if (at - spans.start[i] > lane.longest) break;
  }
  return -1;
}

/** @param {number} i an instruction, or -1 @param {PointerEvent} [event] where */
function showTip(i, event) {
  const tip = byId("tip");
  tip.style.display = event ? "block" : "none";
  if (!event) return;
  const line = spans.line[i];
  tip.replaceChildren(
    element("div", {}, element("strong", { className: "mono", textContent: `#${i} ${distinct(i).opcode} ` }), chip(distinct(i).engine)),
    element("div", { className: "mono", textContent: distinct(i).operands.join(", ") }),
    element("div", { textContent: `${time(spans.start[i])} to ${time(busyUntil(i))}; readable at ${time(readable(i))}` }),
    element("div", { className: "soft mono", textContent: `${placeShort(line)}  ${line < 0 ? "" : data.lines[line].text}` }),
    element("div", {}, "Waited for: ", ...why(i)));
  tip.style.left = `${Math.max(Math.min(event.clientX + 14, window.innerWidth - tip.offsetWidth - 8), 8)}px`;
  const below = event.clientY + 16;
  tip.style.top = `${below + tip.offsetHeight < window.innerHeight ? below : event.clientY - tip.offsetHeight - 10}px`;
}

function listenToPointer() {
  /** @type {Drag | null} */
  let drag = null;
  canvas.onpointerdown = (event) => {
    drag = { x: event.clientX, from: state.from, to: state.to, moved: false };
    canvas.setPointerCapture(event.pointerId);
  };
  canvas.onpointermove = (event) => {
    if (drag) {
      const shift = (drag.x - event.clientX) / plotWidth() * (drag.to - drag.from);
      drag.moved ||= Math.abs(event.clientX - drag.x) > 3;
      if (drag.moved) { showTip(-1); show(drag.from + shift, drag.to + shift); }
      return;
    }
    const i = spanAt(event.offsetX, event.offsetY);
    if (i !== state.hover) { state.hover = i; draw(); }
    showTip(i, i < 0 ? undefined : event);
  };
  canvas.onpointerup = (event) => {
    if (drag && !drag.moved) select(spanAt(event.offsetX, event.offsetY), false);
    drag = null;
  };
  canvas.onpointerleave = () => { state.hover = -1; showTip(-1); draw(); };
  canvas.addEventListener("wheel", (event) => {
    event.preventDefault();
    if (Math.abs(event.deltaX) > Math.abs(event.deltaY)) pan(event.deltaX / plotWidth());
    else zoom(Math.exp(event.deltaY * 0.0016), toTime(event.offsetX));
  }, { passive: false });
}

/** The next or previous instruction of the chosen one's engine. @param {number} step */
function stepInstruction(step) {
  const lane = state.selected < 0 ? lanes[0] : laneOf(state.selected);
  if (!lane) return;
  const at = state.selected < 0 ? firstVisible(lane, state.from) : lane.indices.indexOf(state.selected) + step;
  select(lane.indices[Math.min(Math.max(at, 0), lane.indices.length - 1)], true);
}

/** The instruction of the engine below or above that starts next. @param {number} step */
function stepLane(step) {
  if (state.selected < 0) { stepInstruction(1); return; }
  const lane = lanes[lanes.indexOf(laneOf(state.selected)) + step];
  if (lane) select(lane.indices[Math.min(firstVisible(lane, spans.start[state.selected]), lane.indices.length - 1)], true);
}

function listenToKeys() {
  /** @type {Record<string, () => void>} */
  const keys = { a: () => pan(-0.2), d: () => pan(0.2), arrowleft: () => pan(-0.2), arrowright: () => pan(0.2),
    w: () => zoom(0.7), s: () => zoom(1 / 0.7), "+": () => zoom(0.7), "-": () => zoom(1 / 0.7), f: fit,
    n: () => stepInstruction(1), p: () => stepInstruction(-1), j: () => stepLane(1), k: () => stepLane(-1),
    escape: () => { state.line = -1; chooseLine(-1); select(-1); } };
  document.addEventListener("keydown", (event) => {
    const action = keys[event.key.toLowerCase()];
    const target = /** @type {Element} */ (event.target);
    const isTheirs = target.matches?.("select, input, .scroll") && event.key.length > 1 && event.key !== "Escape";
    if (!action || isTheirs || target.matches?.("select") || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  const buttons = { "zoom-in": () => zoom(0.6), "zoom-out": () => zoom(1 / 0.6), earlier: () => pan(-0.4),
    later: () => pan(0.4), fit };
  for (const [id, action] of Object.entries(buttons)) byId(id).onclick = action;
  byId("show-critical").onchange = draw;
}
