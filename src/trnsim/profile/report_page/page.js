"use strict";
// All text reaches the document through textContent. A report has a profile for each target; `data`
// is the one that is shown. Times are nanoseconds from its first instruction on; `state.from` and
// `state.to` are the visible window.

/** @param {string} id @returns {any} the element, of whatever kind */
const byId = (id) => document.getElementById(id);
/** @type {Report} */
const report = JSON.parse(byId("data").textContent);
/** @type {HTMLCanvasElement} */
const canvas = byId("timeline");
const ENGINES = ["Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA", "CC-Core"];
const GUTTER = 112, AXIS = 22, TRACK = 56, GAP = 8, EDGE = 8;
const state = { profile: 0, from: 0, to: 1, selected: -1, line: -1, hover: -1, isLoading: false };
/** @type {Profile} */ let data;
/** @type {Spans} */ let spans;
/** @type {number} */ let count;
/** @type {Uint8Array} */ let isCritical;
/** @type {Lane[]} */ let lanes;
/** @type {number[]} */ let laneOfDistinct;
/** @type {number} */ let LANE;
/** @type {Level[]} */ let levels;

/** @param {number} profile */
function use(profile) {
  data = report.profiles[profile];
  spans = data.spans;
  count = spans.start.length;
  isCritical = new Uint8Array(count);
  for (const i of data.critical) isCritical[i] = 1;
  lanes = makeLanes();
  LANE = lanes.length ? lanes[0].height : 0;
  levels = makeLevels();
  Object.assign(state, { profile, from: 0, to: Math.max(data.device_ns, 1), selected: -1, line: -1, hover: -1 });
}

// Words

/** @type {Units} */
const TIMES = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
/** @type {Units} */
const SIZES = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
/** @type {Units} */
const PREFIXES = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];

/** @param {number} n @param {Units} units the largest first */
const unitOf = (n, units) => units.find(([size]) => Math.abs(n) >= size) || units[units.length - 1];
/** @param {number} n @param {Units} units */
function inUnits(n, units) {
  const [size, unit] = unitOf(n, units);
  return `${Number((n / size).toPrecision(3))} ${unit}`;
}
/** @param {number} ns */
function time(ns) {
  const [size, unit] = unitOf(ns, TIMES);
  return `${Number((ns / size).toPrecision(ns < 1e3 * size ? 4 : 7))} ${unit}`;
}
/** @param {number} ns */
const short = (ns) => inUnits(ns, TIMES);
/** @param {number} low @param {number} high */
function range(low, high) {
  const [from, to] = [short(low), short(high)];
  return from.split(" ")[1] === to.split(" ")[1] ? `${from.split(" ")[0]}–${to}` : `${from} to ${to}`;
}
/** @param {number} n */
const bytes = (n) => inUnits(n, SIZES);
/** @param {number} n @param {string} unit */
const rate = (n, unit) => inUnits(n, PREFIXES) + unit;
/** @param {number} share */
const percent = (share) => `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))} %`;
/** @param {number} i a source line */
const place = (i) => (i < 0 ? "no source line" : `${data.lines[i].file}:${data.lines[i].line}`);
/** @param {number} i a source line */
const placeShort = (i) => place(i).split(/[\\/]/).pop();

// The document

/**
 * @param {string} tag
 * @param {Record<string, unknown>} [properties]
 * @param {...Content} children
 */
function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties || {});
  made.append(...children);
  return made;
}
/** @param {number} i an instruction */
function distinct(i) { return data.distinct[spans.which[i]]; }
/** @param {string} label an engine */
const colour = (label) => theme(label.split(" ")[0].toLowerCase());
/** @param {string} name of a colour */
function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
/** @param {string} label an engine */
function chip(label) {
  const made = element("span", { className: "chip", textContent: label });
  made.style.background = colour(label);
  return made;
}
/** @param {number} i an instruction */
function jump(i) {
  const words = `#${i} ${distinct(i).opcode}`;
  return element("button", { className: "link mono", textContent: words, onclick: () => select(i, true) });
}
/** @param {number} i a source line */
function lineButton(i) {
  const made = element("button", { className: "link mono", textContent: placeShort(i), title: place(i) });
  made.onclick = () => chooseLine(i);
  return made;
}

/** @param {string} name @param {string} value @param {string} note */
function card(name, value, note) {
  return element("div", { className: "panel card" },
    element("div", { className: "name", textContent: name }),
    element("div", { className: "value", textContent: value }),
    element("div", { className: "note", textContent: note }));
}

function showCards() {
  const s = data.summary, m = s.metrics;
  const busiest = s.engines[0];
  const busy = busiest ? `busiest: ${busiest.engine} ${percent(busiest.active_share)}` : "nothing ran";
  byId("target").textContent = `${s.target} · ${count.toLocaleString("en")} instructions · estimated, not measured`;
  byId("title").textContent = data.title;
  byId("step").hidden = !report.step;
  if (report.step && /^[\w.-]+\.html$/.test(report.step)) byId("step").href = report.step;
  byId("cards").replaceChildren(
    card("Estimated time", short(s.total_time_s * 1e9),
      `P10–P90 ${range(s.total_time_p10_s * 1e9, s.total_time_p90_s * 1e9)}; ${s.unseen_error}`),
    card("Bound by", s.bound_by[0].toUpperCase() + s.bound_by.slice(1), busy),
    card("On the device", short(data.device_ns), `the time assumes: ${assumed(s.conditions)}`),
    card("HBM", `${percent(m.mbu_estimated_percent / 100)} MBU`,
      `${bytes(m.hbm_read_bytes)} in, ${bytes(m.hbm_write_bytes)} out`),
    card("Tensor Engine", `${percent(m.mfu_estimated_percent / 100)} MFU`,
      `${rate(m.hardware_flops, "FLOP")}, ${percent(m.hfu_estimated_percent / 100)} HFU`),
    card("SBUF peak", bytes(s.sbuf_peak_bytes), `of ${bytes(s.sbuf_bytes)} a partition`),
    card("PSUM peak", bytes(s.psum_peak_bytes), `of ${bytes(s.psum_bytes)} a partition`));
}

/** @param {Gain} advice */
function gainWords(advice) {
  return `−${short(advice.gain_ns)} (${percent(advice.gain_ns / data.device_ns)} of device time)`;
}

function showAdvice() {
  const first = data.advice[0];
  const list = byId("advice");
  byId("first").hidden = !first;
  list.replaceChildren();
  if (!first) {
    list.append(element("p", { className: "soft", textContent: "No rule found anything to improve." }));
    return;
  }
  byId("first").replaceChildren(element("strong", { textContent: "Try first" }),
    element("span", { className: "what", textContent: first.text }), lineButton(first.line),
    element("span", { className: "gain", textContent: `−${short(first.gain_ns)}` }));
  for (const advice of data.advice) {
    list.append(element("li", {},
      element("div", {}, element("span", { textContent: `${advice.text} ` }),
        element("span", { className: "gain", textContent: gainWords(advice) })),
      element("div", { className: "soft" }, lineButton(advice.line), ` · ${advice.source}`)));
  }
}

// What an engine twice as fast would gain, and what is legal but risky.
function showGains() {
  const found = data.gains.filter((gain) => gain.line < 0 && gain.gain_ns > 0);
  byId("gains").replaceChildren(...found.map((gain) => element("div", {},
    `${gain.change}: `, element("span", { className: "gain", textContent: gainWords(gain) }))));
  byId("warnings").replaceChildren(...data.warnings.map((words) => element("div", { textContent: `Warning: ${words}` })));
}

// What each depends_on and each pair of with_schedule gained or cost; an earlier report has none.
function showEdges() {
  const edges = data.edges || [];
  byId("edges-part").hidden = !edges.length;
  byId("edges").replaceChildren(...edges.map((edge) => element("div", {}, lineButton(edge.line),
    ` ${edge.form} (${edge.kind}), ${edge.text}${edge.edges > 1 ? ` (${edge.edges} edges)` : ""}: `, ...edgeWords(edge))));
}

/** @param {KernelEdge} edge @returns {(Node | string)[]} */
function edgeWords(edge) {
  const gain = edge.gain_ns;
  if (gain == null) return ["not tried"];
  const times = `without it ${short(edge.without_ns || 0)}, with it ${short(edge.with_ns || 0)}: `;
  const words = gain ? `${gain > 0 ? "gains" : "costs"} ${short(Math.abs(gain))}` : "changes nothing";
  return [times, element("span", { className: gain > 0 ? "gain" : gain < 0 ? "wrong" : "", textContent: words })];
}

/** @param {Cell[]} cells @param {string} tag */
function row(cells, tag = "td") {
  return element("tr", {}, ...cells.map(([content, className]) => {
    const cell = element(tag, { className: className || "" });
    cell.append(content);
    return cell;
  }));
}

/**
 * Fills a table. On a narrow page the header of a column stands before each of its cells.
 * @param {string} id @param {Cell[]} heads @param {HTMLElement[]} rows
 */
function fill(id, heads, rows) {
  const names = heads.map(([content]) => (typeof content === "string" ? content : content.textContent || ""));
  for (const made of rows) {
    [...made.children].forEach((cell, at) => { if (names[at]) /** @type {HTMLElement} */ (cell).dataset.label = names[at]; });
  }
  byId(id).replaceChildren(element("thead", {}, row(heads, "th")), element("tbody", {}, ...rows));
}

/** @param {number} share of its width that is filled */
function meter(share) {
  const bar = element("i");
  bar.style.width = `${100 * share}%`;
  return element("div", { className: "meter" }, bar);
}

function showLines() {
  const free = new Map(data.gains.filter((gain) => gain.line >= 0).map((gain) => [gain.line, gain.gain_ns]));
  /** @type {Cell[]} */
  const heads = [["Line"], ["Source"], ["Instructions", "number"], ["Busy", "number"], ["Critical path", "number"],
    ["If free", "number"]];
  fill("lines", heads, data.by_line.slice(0, 500).map((item) => {
    const share = item.critical_ns / data.device_ns, gain = free.get(item.line);
    const critical = element("div", { title: `${time(item.waiting_ns)} of it waiting for the result` },
      `${short(item.critical_ns)} · ${percent(share)}`, meter(share));
    const source = item.line < 0 ? "" : data.lines[item.line].text;
    const made = row([[lineButton(item.line)], [element("code", { textContent: source }), "text"],
      [item.instructions.toLocaleString("en"), "number"], [short(item.busy_ns), "number"], [critical, "number"],
      [gain == null ? "" : `−${short(gain)}`, "number"]]);
    made.dataset.line = String(item.line);
    return made;
  }));
}

function showFacts() {
  const kinds = Object.entries(data.summary.facts).map(([kind, n]) => `${n} ${kind}`);
  byId("kinds").textContent = kinds.join(" · ");
  fill("facts", [["Fact"], ["Value", "number"], ["Kind"], ["Source"]], data.facts.map((fact) =>
    row([[element("code", { textContent: fact.name })],
      [String(Number(fact.value.toPrecision(6))), "number"], [fact.kind], [fact.source, "text"]])));
}
