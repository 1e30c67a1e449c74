"use strict";
// All text reaches the document through textContent. Times are nanoseconds from the first
// instruction on; `from` and `to` are the visible window.

const data = JSON.parse(document.getElementById("data").textContent);
const spans = data.spans;
const count = spans.start.length;
const byId = (id) => document.getElementById(id);
const canvas = byId("timeline");
const ENGINES = ["Tensor", "Vector", "Scalar", "GpSimd", "Sync", "DMA"];
const GUTTER = 112, AXIS = 22, TRACK = 56, GAP = 8, EDGE = 8;
const state = { from: 0, to: Math.max(data.device_ns, 1), selected: -1, line: -1, hover: -1 };
const isCritical = new Uint8Array(count);
data.critical.forEach((i) => { isCritical[i] = 1; });
const lanes = makeLanes();
const LANE = lanes.length ? lanes[0].height : 0;

// Words

function time(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, unit] = units.find(([s]) => Math.abs(ns) >= s) || units[3];
  return `${Number((ns / size).toPrecision(ns < 1e3 * size ? 4 : 7))} ${unit}`;
}
function short(ns) {
  const units = [[1e9, "s"], [1e6, "ms"], [1e3, "µs"], [1, "ns"]];
  const [size, unit] = units.find(([s]) => Math.abs(ns) >= s) || units[3];
  return `${Number((ns / size).toPrecision(3))} ${unit}`;
}
function range(low, high) {
  const [from, to] = [short(low), short(high)];
  return from.split(" ")[1] === to.split(" ")[1] ? `${from.split(" ")[0]}–${to}` : `${from} to ${to}`;
}
function bytes(n) {
  const units = [[2 ** 30, "GiB"], [2 ** 20, "MiB"], [2 ** 10, "KiB"], [1, "B"]];
  const [size, unit] = units.find(([s]) => n >= s) || units[3];
  return `${Number((n / size).toPrecision(3))} ${unit}`;
}
function rate(n, unit) {
  const units = [[1e12, "T"], [1e9, "G"], [1e6, "M"], [1e3, "k"], [1, ""]];
  const [size, prefix] = units.find(([s]) => n >= s) || units[4];
  return `${Number((n / size).toPrecision(3))} ${prefix}${unit}`;
}
const percent = (share) => `${Number((100 * share).toPrecision(share < 0.1 ? 2 : 3))} %`;
const place = (i) => (i < 0 ? "no source line" : `${data.lines[i].file}:${data.lines[i].line}`);
const placeShort = (i) => place(i).split(/[\\/]/).pop();

// The document

function element(tag, properties, ...children) {
  const made = Object.assign(document.createElement(tag), properties || {});
  made.append(...children);
  return made;
}
function distinct(i) { return data.distinct[spans.which[i]]; }
function colour(label) {
  const name = label.split(" ")[0].toLowerCase();
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
function theme(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
function chip(label) {
  const made = element("span", { className: "chip", textContent: label });
  made.style.background = colour(label);
  return made;
}
function jump(i) {
  const words = `#${i} ${distinct(i).opcode}`;
  return element("button", { className: "link mono", textContent: words, onclick: () => select(i, true) });
}
function lineButton(i) {
  const made = element("button", { className: "link mono", textContent: placeShort(i), title: place(i) });
  made.onclick = () => chooseLine(i);
  return made;
}

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
  byId("cards").append(
    card("Estimated time", short(s.total_time_s * 1e9),
      `P10–P90 ${range(s.total_time_p10_s * 1e9, s.total_time_p90_s * 1e9)}`),
    card("Bound by", s.bound_by[0].toUpperCase() + s.bound_by.slice(1), busy),
    card("On the device", short(data.device_ns), `after a launch of ${short(s.launch_s * 1e9)}`),
    card("HBM", `${percent(m.mbu_estimated_percent / 100)} MBU`,
      `${bytes(m.hbm_read_bytes)} in, ${bytes(m.hbm_write_bytes)} out`),
    card("Tensor Engine", `${percent(m.mfu_estimated_percent / 100)} MFU`,
      `${rate(m.hardware_flops, "FLOP")}, ${percent(m.hfu_estimated_percent / 100)} HFU`),
    card("SBUF peak", bytes(s.sbuf_peak_bytes), `of ${bytes(s.sbuf_bytes)}, issue order`),
    card("PSUM peak", bytes(s.psum_peak_bytes), `of ${bytes(s.psum_bytes)}, issue order`));
}

function gainWords(advice) {
  return `−${short(advice.gain_ns)} (${percent(advice.gain_ns / data.device_ns)} of device time)`;
}

function showAdvice() {
  const first = data.advice[0];
  const list = byId("advice");
  if (!first) {
    list.replaceWith(element("p", { className: "soft", textContent: "No rule found anything to improve." }));
    return;
  }
  byId("first").hidden = false;
  byId("first").append(element("strong", { textContent: "Try first" }),
    element("span", { className: "what", textContent: first.text }), lineButton(first.line),
    element("span", { className: "gain", textContent: `−${short(first.gain_ns)}` }));
  for (const advice of data.advice) {
    list.append(element("li", {},
      element("div", {}, element("span", { textContent: `${advice.text} ` }),
        element("span", { className: "gain", textContent: gainWords(advice) })),
      element("div", { className: "soft" }, lineButton(advice.line), ` · ${advice.source}`)));
  }
}

function row(cells, tag = "td") {
  return element("tr", {}, ...cells.map(([content, className]) => {
    const cell = element(tag, { className: className || "" });
    cell.append(content);
    return cell;
  }));
}

function showLines() {
  const table = byId("lines");
  table.append(row([["Line"], ["Source"], ["Instructions", "number"], ["Busy", "number"],
    ["Critical path", "number"]], "th"));
  for (const item of data.by_line.slice(0, 500)) {
    const share = item.critical_ns / data.device_ns;
    const meter = element("div", { className: "meter" }, element("i"));
    meter.firstChild.style.width = `${100 * share}%`;
    const critical = element("div", { title: `${time(item.waiting_ns)} of it waiting for the result` },
      `${short(item.critical_ns)} · ${percent(share)}`, meter);
    const source = item.line < 0 ? "" : data.lines[item.line].text;
    const made = row([[lineButton(item.line)], [element("code", { textContent: source }), "text"],
      [item.instructions.toLocaleString("en"), "number"], [short(item.busy_ns), "number"], [critical, "number"]]);
    made.dataset.line = item.line;
    table.append(made);
  }
}

function showFacts() {
  const kinds = Object.entries(data.summary.facts).map(([kind, n]) => `${n} ${kind}`);
  byId("kinds").textContent = kinds.join(" · ");
  byId("facts").append(row([["Fact"], ["Value", "number"], ["Kind"], ["Source"]], "th"));
  for (const fact of data.facts) {
    byId("facts").append(row([[element("code", { textContent: fact.name })],
      [String(Number(fact.value.toPrecision(6))), "number"], [fact.kind], [fact.source, "text"]]));
  }
}

// Why an instruction started when it did

const busyUntil = (i) => spans.start[i] + spans.busy[i];
const readable = (i) => busyUntil(i) + spans.latency[i];

function before(i) {
  const lane = lanes.find((l) => l.label === distinct(i).engine);
  const at = lane.indices.indexOf(i);
  return at > 0 ? lane.indices[at - 1] : -1;
}

function why(i) {
  const cause = spans.waited_for[i];
  if (cause < 0) return ["Nothing: it started at once."];
  const free = before(i) < 0 ? 0 : busyUntil(before(i));
  const isSame = distinct(cause).engine === distinct(i).engine;
  const idle = spans.start[i] - free;
  if (isSame && Math.abs(busyUntil(cause) - spans.start[i]) < 0.05) {
    return ["Its engine, busy with ", jump(cause), "."];
  }
  const semaphore = isSame ? "" : `, plus a semaphore of ${time(data.semaphore_ns)}`;
  return [`The result of `, jump(cause), ` (${distinct(cause).engine}), readable at `,
    `${time(readable(cause))}${semaphore}. The ${distinct(i).engine} was idle for ${time(idle)}.`];
}

function dependencies(i) {
  const earlier = spans.waits.slice(spans.waits_from[i], spans.waits_from[i + 1]);
  if (!earlier.length) return [element("div", { textContent: "none" })];
  return earlier.slice(0, 12).map((j) =>
    element("div", {}, jump(j), element("span", { className: "soft", textContent: ` at ${time(readable(j))}` })));
}

function showDetails(i) {
  const panel = byId("details");
  panel.replaceChildren(element("h2", { textContent: "Instruction" }));
  if (i < 0) {
    panel.append(element("p", { className: "soft", textContent:
      "Click a span to see its operands, its source line, and what it waited for." }));
    return;
  }
  const line = spans.line[i];
  const operands = distinct(i).operands.map((text) => element("div", { className: "mono", textContent: text }));
  const terms = [["Waited for", why(i)],
    ["Start", [time(spans.start[i])]],
    ["Busy", [`${time(spans.busy[i])}, until ${time(busyUntil(i))}`]],
    ["Readable", [`${time(readable(i))} (latency ${time(spans.latency[i])})`]],
    ["Operands", operands], ["Depends on", dependencies(i)],
    ["Critical", [isCritical[i] ? "on the critical path" : "no"]]];
  const list = element("dl");
  for (const [name, content] of terms) {
    list.append(element("dt", { textContent: name }), element("dd", {}, ...content));
  }
  panel.append(
    element("div", {}, element("strong", { className: "mono", textContent: `#${i} ${distinct(i).opcode} ` }),
      chip(distinct(i).engine)),
    element("div", { className: "soft mono", id: "detail-place", textContent: place(line) }));
  if (line >= 0 && data.lines[line].text) {
    panel.append(element("pre", { id: "detail-source", textContent: data.lines[line].text }));
  }
  panel.append(list, element("div", {}, neighbour("Previous", i - 1), " ", neighbour("Next", i + 1)));
}

function neighbour(words, i) {
  const isThere = i >= 0 && i < count;
  return element("button", { textContent: words, disabled: !isThere, onclick: () => select(i, true) });
}

function select(i, reveal) {
  state.selected = i;
  canvas.dataset.selected = i;
  if (i >= 0 && reveal) {
    const width = state.to - state.from;
    const isVisible = spans.start[i] >= state.from && readable(i) <= state.to;
    if (!isVisible) show(spans.start[i] - width / 2, spans.start[i] + width / 2);
  }
  showDetails(i);
  writeFragment();
  draw();
}

function chooseLine(i) {
  state.line = state.line === i ? -1 : i;
  document.querySelectorAll("#lines tr").forEach((tr) => {
    tr.classList.toggle("chosen", state.line >= 0 && Number(tr.dataset.line) === state.line);
  });
  draw();
}
