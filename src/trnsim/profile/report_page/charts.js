// Targets side by side, the roofline, and all figures of the summary table.

// Side by side

const hasTargets = () => report.profiles.length > 1;

function showTargets() {
  byId("targets").hidden = !hasTargets();
  if (!hasTargets()) return;
  byId("pair").append(byId("roof"));
  const longest = Math.max(...report.profiles.map((profile) => profile.summary.total_time_s));
  /** @type {Cell[]} */
  const heads = report.profiles.map((profile, at) => [element("button", {
    className: at === state.profile ? "shown" : "", textContent: profile.target,
    onclick: () => { location.hash = `#profile=${at}`; } }), "number"]);
  fill("compare", [[""], ...heads], Object.entries(COMPARED).map(([name, cell]) => row([[name],
    ...report.profiles.map((profile) => /** @type {Cell} */ ([cell(profile.summary, profile.summary.metrics, longest), "number"]))])));
}

/** @param {number} value in percent */
const share = (value) => percent(value / 100);
/** @param {Summary} s @param {string} name of an engine */
const active = (s, name) => {
  const use = s.engines.find((engine) => engine.engine === name);
  return use ? percent(use.active_share) : "–";
};
/** @type {Record<string, string>} */
const DESCRIPTORS = { hardware: "hardware DGE", software: "software DGE", none: "no DGE" };
/** @param {Conditions} c */
const assumed = (c) => [
  ...Object.keys(c.transfers).map((maker) => DESCRIPTORS[maker] + (c.is_dge_assumed ? " (assumed)" : "")),
  `LNC=${c.lnc}`, `${c.order} order`,
  `launch ${short(c.launch_s * 1e9)} (${range(c.launch_p10_s * 1e9, c.launch_p90_s * 1e9)})`,
].join(", ");
/** @type {Record<string, (s: Summary, m: Metrics, longest: number) => Content>} */
const COMPARED = {
  "Estimated time": (s, m, longest) =>
    element("div", {}, short(s.total_time_s * 1e9), meter(s.total_time_s / longest)),
  "P10 to P90": (s) => range(s.total_time_p10_s * 1e9, s.total_time_p90_s * 1e9),
  "Expected error": (s) => s.unseen_error,
  "Assumes": (s) => assumed(s.conditions),
  "On the device": (s) => short(s.device_time_s * 1e9),
  "Bound by": (s) => s.bound_by,
  "Critical path waits": (s) => percent(s.waiting_share),
  "MFU": (s, m) => share(m.mfu_estimated_percent),
  "MBU": (s, m) => share(m.mbu_estimated_percent),
  "Tensor active": (s) => active(s, "Tensor Engine"),
  "Vector active": (s) => active(s, "Vector Engine"),
  "Scalar active": (s) => active(s, "Scalar Engine"),
  "GpSimd active": (s) => active(s, "GpSimd Engine"),
  "DMA active": (s) => active(s, "DMA"),
  "SBUF peak": (s) => `${bytes(s.sbuf_peak_bytes)} of ${bytes(s.sbuf_bytes)}`,
  "PSUM peak": (s) => `${bytes(s.psum_peak_bytes)} of ${bytes(s.psum_bytes)}`,
};

// The roofline: operations a second over operations a byte, both logarithmic

const ROOF = { width: 560, height: 300, left: 62, right: 14, top: 14, bottom: 40 };
const WIDEST_ROOF = 560, NARROWEST_ROOF = 280;

/**
 * @param {string} tag
 * @param {Record<string, string | number>} attributes
 * @param {...Content} children
 */
function svg(tag, attributes, ...children) {
  const made = document.createElementNS("http:" + "//www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

function showRoofline() {
  const panel = byId("roofline");
  panel.replaceChildren();
  const points = report.profiles.map((profile, at) => ({ at, ...profile.roofline, name: profile.target }))
    .filter(/** @returns {point is Point} */ (point) => Boolean(point.flop_per_byte && point.flop_per_s));
  const shown = points.find((point) => point.at === state.profile);
  byId("roofline-words").textContent = rooflineWords(shown);
  if (!shown) return;
  // As wide as its room, so that letters keep their size on a telephone.
  ROOF.width = Math.max(NARROWEST_ROOF, Math.min(WIDEST_ROOF, panel.clientWidth || WIDEST_ROOF));
  panel.setAttribute("viewBox", `0 0 ${ROOF.width} ${ROOF.height}`);
  const scale = roofScale(points);
  panel.append(...roofAxes(scale));
  for (const point of points) panel.append(roofOf(point, scale, point === shown));
  panel.append(...dots(dotsOf(points, shown), scale));
}

/** @param {Point[]} points @param {Point} shown @returns {Dot[]} */
function dotsOf(points, shown) {
  const found = points.map((point) => ({ kind: point === shown ? "kernel shown" : "kernel",
    label: `${point.name} kernel`, at: point.flop_per_byte, value: point.flop_per_s,
    words: `${point.name}: ${rate(point.flop_per_s, "FLOP/s")} of ${rate(point.best_flop_per_s, "FLOP/s")}` }));
  for (const piece of shown.opcodes) {
    found.push({ kind: "piece", label: `${piece.opcode} while it runs`, at: shown.flop_per_byte, value: piece.flop_per_s,
      words: `${piece.opcode}, while it runs: ${rate(piece.flop_per_s, "FLOP/s")}` });
  }
  return found;
}

/**
 * Labels stand below each other where their dots would let them overlap.
 * @param {Dot[]} found @param {RoofScale} scale
 */
function dots(found, scale) {
  const placed = found.map((dot) => ({ ...dot, x: scale.x(dot.at), y: scale.y(dot.value) })).sort((a, b) => a.y - b.y);
  let last = -Infinity;
  return placed.map((dot) => {
    const isLeft = dot.x > 0.62 * ROOF.width, top = Math.max(dot.y, last + 14);
    last = top;
    const text = { x: isLeft ? dot.x - 12 : dot.x + 12, y: top + 4, "text-anchor": isLeft ? "end" : "start" };
    return svg("g", { class: `dot ${dot.kind}` }, svg("title", {}, dot.words),
      svg("line", { x1: dot.x, y1: dot.y, x2: isLeft ? dot.x - 10 : dot.x + 10, y2: top }),
      svg("circle", { cx: dot.x, cy: dot.y, r: 4.5 }), svg("text", text, dot.label));
  });
}

/** @param {Point | undefined} point */
function rooflineWords(point) {
  if (!point) return "No matmuls, or no bytes from HBM: there is no point to show.";
  const bound = point.flop_per_byte < point.peak_flop_per_s / point.hbm_bytes_per_s ? "HBM" : "the Tensor Engine";
  return `${Number(point.flop_per_byte.toPrecision(3))} operations a byte: ${bound} allows ` +
    `${rate(point.best_flop_per_s, "FLOP/s")}, the kernel reaches ${rate(point.flop_per_s, "FLOP/s")} ` +
    `(${percent(point.flop_per_s / point.best_flop_per_s)} of it).`;
}

/** @param {Point[]} points @returns {RoofScale} */
function roofScale(points) {
  const ridges = points.map((p) => p.peak_flop_per_s / p.hbm_bytes_per_s);
  const xs = [...ridges, ...points.map((p) => p.flop_per_byte)];
  const ys = points.flatMap((p) => [p.peak_flop_per_s, p.flop_per_s, ...p.opcodes.map((o) => o.flop_per_s)]);
  /** @param {number[]} values @param {number} low @param {number} high */
  const span = (values, low, high) => [10 ** Math.floor(Math.log10(Math.min(...values) * low)),
    10 ** Math.ceil(Math.log10(Math.max(...values) * high))];
  const [x0, x1] = span(xs, 0.8, 1.5), [y0, y1] = span(ys, 0.8, 1.5);
  /** @type {(value: number, low: number, high: number, from: number, to: number) => number} */
  const place = (value, low, high, from, to) =>
    from + Math.log10(value / low) / Math.log10(high / low) * (to - from);
  return { x0, x1, y0, y1,
    x: (value) => place(value, x0, x1, ROOF.left, ROOF.width - ROOF.right),
    y: (value) => place(value, y0, y1, ROOF.height - ROOF.bottom, ROOF.top) };
}

/** @param {RoofScale} scale */
function roofAxes(scale) {
  const made = [], bottom = ROOF.height - ROOF.bottom;
  for (let at = scale.x0; at <= scale.x1 * 1.01; at *= 10) {
    made.push(svg("line", { class: "grid", x1: scale.x(at), x2: scale.x(at), y1: ROOF.top, y2: bottom }),
      svg("text", { x: scale.x(at), y: bottom + 15, "text-anchor": "middle" }, String(Number(at.toPrecision(3)))));
  }
  for (let at = scale.y0; at <= scale.y1 * 1.01; at *= 10) {
    made.push(svg("line", { class: "grid", x1: ROOF.left, x2: ROOF.width - ROOF.right, y1: scale.y(at), y2: scale.y(at) }),
      svg("text", { x: ROOF.left - 6, y: scale.y(at) + 4, "text-anchor": "end" }, rate(at, "FLOP/s").replace("FLOP/s", "")));
  }
  made.push(svg("text", { x: (ROOF.left + ROOF.width) / 2, y: ROOF.height - 6, "text-anchor": "middle" }, "operations a byte of HBM"),
    svg("text", { x: 14, y: ROOF.height / 2, "text-anchor": "middle", transform: `rotate(-90 14 ${ROOF.height / 2})` }, "FLOP/s"));
  return made;
}

/** @param {Point} point @param {RoofScale} scale @param {boolean} isShown */
function roofOf(point, scale, isShown) {
  const ridge = point.peak_flop_per_s / point.hbm_bytes_per_s;
  const start = Math.max(scale.x0, scale.y0 / point.hbm_bytes_per_s);
  const corners = [[start, start * point.hbm_bytes_per_s], [ridge, point.peak_flop_per_s], [scale.x1, point.peak_flop_per_s]];
  const line = corners.map(([x, y]) => `${scale.x(x)},${scale.y(y)}`).join(" ");
  return svg("polyline", { class: isShown ? "roof shown" : "roof", points: line });
}

// All figures by name; what is unknown says why

function showFigures() {
  const { metrics, missing } = data.summary;
  const known = Object.values(metrics).filter((value) => value !== null).length;
  byId("known").textContent = `${known} of ${Object.keys(metrics).length} known`;
  fill("figures", [["Name"], ["Value", "number"], ["Why unknown"]], Object.entries(metrics).map(([name, value]) => {
    const words = value === null ? "–" : String(Number.isInteger(value) ? value : Number(value.toPrecision(6)));
    return row([[element("code", { textContent: name })], [words, "number"], [missing[name] || "", "text soft"]]);
  }));
}
