// Whole source files: time, stalls and their reasons beside each line, and the way back.

// A stall is the time in which an engine was idle before an instruction of a line started; its
// reason is what that instruction waited for.

/** By source line, the stalls of its instructions, the longest first. @returns {Map<number, Stall[]>} */
function stallsByLine() {
  // A cause is a line and a distinct instruction; words are made of few of them.
  /** @type {Map<number, Map<number, number>>} */
  const found = new Map();
  const { start, busy, waited_for: causes, which, line } = spans, kinds = data.distinct.length;
  for (const lane of lanes) {
    let free = 0;
    for (const i of lane.indices) {
      const idle = start[i] - free, cause = causes[i];
      free = Math.max(free, start[i] + busy[i]);
      if (idle <= 0.05 || cause < 0 || line[i] < 0) continue;
      let by = found.get(line[i]);
      if (!by) found.set(line[i], by = new Map());
      const key = (line[cause] + 1) * kinds + which[cause];
      by.set(key, (by.get(key) || 0) + idle);
    }
  }
  return new Map([...found].map(([at, by]) => [at, stallsOf(by, kinds)]));
}

/** @param {Map<number, number>} by @param {number} kinds @returns {Stall[]} */
function stallsOf(by, kinds) {
  /** @type {Map<string, number>} */
  const named = new Map();
  for (const [key, ns] of by) {
    const { opcode, engine } = data.distinct[key % kinds];
    const words = `${opcode} on ${engine}, ${placeShort(Math.floor(key / kinds) - 1)}`;
    named.set(words, (named.get(words) || 0) + ns);
  }
  return [...named].map(([words, ns]) => ({ words, ns })).sort((a, b) => b.ns - a.ns);
}

/** The files, and the one that is shown. */
function showSources() {
  const files = data.sources || [], choice = byId("source-file");
  byId("source").hidden = !files.length;
  choice.replaceChildren(...files.map((file, at) =>
    element("option", { value: String(at), textContent: file.file })));
  choice.onchange = () => showSource(Number(choice.value));
  choice.hidden = files.length < 2;
  if (files.length) showSource(0);
}

/** @param {number} at a file */
function showSource(at) {
  const file = (data.sources || [])[at];
  const numbers = new Map(data.lines.map((line, i) => [`${line.file}:${line.line}`, i]));
  const times = new Map(data.by_line.map((item) => [item.line, item]));
  const stalls = stallsByLine();
  byId("source-file").value = String(at);
  byId("source-name").textContent = file.file;
  const text = file.text.replace(/\n$/, "").split("\n");
  fill("source-lines", [["Line", "number"], ["Source"], ["Busy", "number"], ["Critical path", "number"],
    ["Stalls", "number"], ["Waits for"]], text.map((words, k) => {
    const i = numbers.get(`${file.file}:${k + 1}`) ?? -1;
    return sourceRow(k + 1, words, i, times.get(i), stalls.get(i) || []);
  }));
}

/**
 * @param {number} number @param {string} words @param {number} i a source line of the report, or -1
 * @param {Profile["by_line"][number] | undefined} item @param {Stall[]} stalls
 */
function sourceRow(number, words, i, item, stalls) {
  const code = element("code", { textContent: words || " " });
  if (!item) return row([[String(number), "number soft"], [code, "text"], [""], [""], [""], [""]]);
  const total = stalls.reduce((sum, stall) => sum + stall.ns, 0);
  const link = element("button", { className: "link mono", textContent: String(number),
    title: "Its instructions", onclick: () => chooseLine(i, true) });
  const reasons = stalls.slice(0, 2).map((stall) =>
    element("div", { className: "soft", textContent: `${short(stall.ns)}: ${stall.words}` }));
  const made = row([[link, "number"], [code, "text"], [short(item.busy_ns), "number"],
    [element("div", {}, short(item.critical_ns), meter(item.critical_ns / data.device_ns)), "number"],
    [total ? short(total) : "", "number"], [stalls.length ? element("div", {}, ...reasons) : "", "text"]]);
  made.dataset.line = String(i);
  return made;
}

/** Marks a line, and scrolls the source to it. @param {number} i a source line, or -1 */
function revealLine(i) {
  const files = data.sources || [];
  const at = i < 0 ? -1 : files.findIndex((file) => file.file === data.lines[i].file);
  if (at >= 0 && at !== Number(byId("source-file").value)) showSource(at);
  byId("source-lines").querySelectorAll("tr.here").forEach((/** @type {HTMLElement} */ one) => one.classList.remove("here"));
  const found = at < 0 ? null : byId("source-lines").querySelector(`tr[data-line="${i}"]`);
  if (!found) return;
  found.classList.add("here");
  const box = byId("source-scroll");
  box.scrollTop += found.getBoundingClientRect().top - box.getBoundingClientRect().top - box.clientHeight / 2;
}

/** The instructions of a line, as buttons. @param {number} i a source line, or -1 */
function showInstructions(i) {
  const box = byId("source-instructions"), most = 40;
  box.hidden = i < 0;
  if (i < 0) return;
  /** @type {number[]} */
  const found = [];
  let all = 0;
  for (let k = 0; k < count; k++) if (spans.line[k] === i && ++all <= most) found.push(k);
  box.replaceChildren(element("strong", { textContent: `${placeShort(i)}: ` }),
    ...found.flatMap((k) => [jump(k), " "]), all > most ? `and ${(all - most).toLocaleString("en")} more` : "");
}
