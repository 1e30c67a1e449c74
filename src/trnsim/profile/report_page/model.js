// What stands above the program of a model: modules, operations, engines, HBM by reason.

function showModel() {
  const model = data.model;
  byId("model").hidden = !model;
  if (!model) return;
  byId("model-cards").replaceChildren(
    card("Estimated time", short(model.time_ns), timeWords(model)),
    card("Physical bound", short(model.bound_ns), boundWords(model)),
    card("Products", `${percent(model.mfu)} MFU`, `${rate(model.flop, "FLOP")} of the model over the bf16 peak`),
    card("Bytes", `${percent(model.mbu)} MBU`, `${bytes(model.hbm_bytes)} of weights, inputs and outputs, each once`));
  showParts("modules", "Module", model.modules, (row) => {
    const times = row.times > 1 ? ` × ${row.times}` : "";
    const made = element("code", { textContent: nameOf(row, model.modules) + times, title: row.path });
    made.style.paddingLeft = `${14 * (row.depth || 0)}px`;
    return made;
  });
  showParts("operations", "Operation", model.operations, (row) => element("code", { textContent: row.name }));
  showEngines(model);
  const moved = model.traffic.reduce((sum, row) => sum + row.bytes, 0);
  fill("traffic", [["Reason"], ["Read and written", "number"]], model.traffic.map((one) => row([[one.reason],
    [element("div", {}, `${bytes(one.bytes)} · ${percent(one.bytes / moved)}`, meter(one.bytes / moved)), "number"]])));
  byId("program").textContent = programWords(model);
}

/** @param {Model} model */
function timeWords(model) {
  const exchanges = model.exchanges_ns ? `, ${short(model.exchanges_ns)} exchanges` : "";
  const likely = model.likely_ns?.length ? `P10 to P90 ${model.likely_ns.map(short).join(" to ")}; ` : "";
  return `${likely}${short(model.device_ns)} on the device${exchanges}, ${short(model.launch_ns)} launch`;
}

/** @param {Model} model */
function boundWords(model) {
  const sides = { products: "products at the peak", HBM: "bytes once over HBM", links: "bytes over the links" };
  const distance = model.bound_ns ? `; the time is ${(model.time_ns / model.bound_ns).toFixed(1)} times that` : "";
  return `${sides[model.binds]}${distance}`;
}

/** @param {Model} model */
function programWords(model) {
  const said = model.said.length ? `; ${model.said.join("; ")}` : "";
  const several = model.programs > 1 ? `the longest of ${model.programs} programs` : "the program";
  const few = model.layers ? `, with ${model.compiled} of ${model.layers} equal layers` : "";
  return `What follows is ${several}${few}${said}`;
}

/** @param {ModelRow} row @param {ModelRow[]} rows the path of a module without that of what it is in */
function nameOf(row, rows) {
  const at = rows.indexOf(row);
  const outer = rows.slice(0, at).reverse().find((one) => (one.depth || 0) < (row.depth || 0));
  const path = row.path || "";
  return outer && path.startsWith(`${outer.path}.`) ? path.slice((outer.path || "").length + 1) : path;
}

/**
 * A table of parts: what each takes of the critical path, and what took most of that.
 * @param {string} id @param {string} head @param {ModelRow[]} rows
 * @param {(row: ModelRow) => Content} name
 */
function showParts(id, head, rows, name) {
  const model = /** @type {Model} */ (data.model);
  fill(id, [[head], ["Critical path", "number"], ["Mostly"], ["HBM", "number"]],
    rows.map((one) => {
      const part = model.device_ns ? one.time_ns / model.device_ns : 0;
      return row([[name(one), "text"],
        [element("div", {}, `${short(one.time_ns)} · ${percent(part)}`, meter(part)), "number"],
        [one.time_ns ? engineChip(one.bound_by) : ""], [bytes(one.hbm_bytes), "number"]]);
    }));
}

/** @param {string} label of an engine, or words */
const engineChip = (label) => (colour(label) ? chip(label) : element("span", { className: "soft", textContent: label }));

/** @param {Model} model */
function showEngines(model) {
  fill("model-engines", [["Engine"], ["Critical path", "number"], ["Busy", "number"]], model.engines.map((one) => row([[engineChip(one.engine)],
      [`${short(one.critical_ns)} · ${percent(model.device_ns ? one.critical_ns / model.device_ns : 0)}`, "number"],
      [one.busy_ns ? short(one.busy_ns) : "–", "number"]])));
}
