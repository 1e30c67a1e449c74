// The chosen instruction: operands, source line, why it started when it did.

// Why an instruction started when it did

const MEETINGS = new Set(["core_barrier", "sendrecv"]);

/** @param {number} i an instruction */
const busyUntil = (i) => spans.start[i] + spans.busy[i];
/** @param {number} i an instruction */
const readable = (i) => busyUntil(i) + spans.latency[i];

/** @param {number} i an instruction */
function before(i) {
  const { indices } = laneOf(i);
  const at = indices.indexOf(i);
  return at > 0 ? indices[at - 1] : -1;
}

/** @param {number} i an instruction @returns {Content[]} */
function why(i) {
  const cause = spans.waited_for[i];
  const ownUntil = cause < 0 ? 0 : Math.max(busyUntil(cause), readable(cause)) + data.semaphore_ns;
  if (MEETINGS.has(distinct(i).opcode) && spans.start[i] > ownUntil + 0.05) {
    return [`The other core, which came at ${time(spans.start[i])}; this one was ready by ${time(ownUntil)}.`];
  }
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

/** @param {number} i an instruction */
function dependencies(i) {
  const earlier = spans.waits.slice(spans.waits_from[i], spans.waits_from[i + 1]);
  if (!earlier.length) return [element("div", { textContent: "none" })];
  return earlier.slice(0, 12).map((j) =>
    element("div", {}, jump(j), element("span", { className: "soft", textContent: ` at ${time(readable(j))}` })));
}

/** @param {number} i an instruction, or -1 */
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
  /** @type {[string, Content[]][]} */
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

/** @param {string} words @param {number} i an instruction, if there is one */
function neighbour(words, i) {
  const isThere = i >= 0 && i < count;
  return element("button", { textContent: words, disabled: !isThere, onclick: () => select(i, true) });
}

/** @param {number} i an instruction, or -1 @param {boolean} [reveal] whether to move the window there */
function select(i, reveal) {
  state.selected = i;
  canvas.dataset.selected = String(i);
  if (i >= 0 && reveal) {
    const width = state.to - state.from;
    const isVisible = spans.start[i] >= state.from && readable(i) <= state.to;
    if (!isVisible) show(spans.start[i] - width / 2, spans.start[i] + width / 2);
  }
  showDetails(i);
  revealLine(i < 0 ? -1 : spans.line[i]);
  writeFragment();
  draw();
}

/** @param {number} i a source line, or -1 @param {boolean} [isKept] whether a second call keeps it chosen */
function chooseLine(i, isKept) {
  state.line = state.line === i && !isKept ? -1 : i;
  showInstructions(state.line);
  if (!isKept) revealLine(state.line);
  document.querySelectorAll("#lines tr, #source-lines tr").forEach((one) => {
    const tr = /** @type {HTMLElement} */ (one);
    tr.classList.toggle("chosen", state.line >= 0 && Number(tr.dataset.line) === state.line);
  });
  draw();
}
