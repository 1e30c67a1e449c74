// SBUF and PSUM as maps: addresses of a partition upwards, time to the right, a box for each tensor.

const MAP_HEIGHT = 120, MAP_COLOURS = ["tensor", "vector", "scalar", "gpsimd", "dma", "cc-core", "memory"];

/** @param {number} at a map @returns {HTMLCanvasElement} */
const mapCanvas = (at) => byId(`map-${at}`);

function showMaps() {
  const maps = data.placements || [];
  byId("maps").hidden = !maps.some((map) => map.tensors);
  maps.forEach((map, at) => {
    const canvas = mapCanvas(at);
    const tensors = `${map.tensors.toLocaleString("en")} tensors`;
    const few = map.label.length < map.tensors ? `, the ${map.label.length.toLocaleString("en")} largest shown` : "";
    byId(`map-words-${at}`).textContent = `${map.name}: ${tensors}${few}`;
    canvas.hidden = !map.label.length;
    canvas.onpointermove = (event) => showTensor(at, tensorAt(at, event.offsetX, event.offsetY));
    canvas.onpointerleave = () => showTensor(at, -1);
    canvas.onclick = (event) => chooseTensor(at, tensorAt(at, event.offsetX, event.offsetY));
    canvas.onkeydown = (event) => stepTensor(at, event);
  });
}

/** The highest address that a map has. @param {Placement} map */
const mapTop = (map) => Math.max(1, ...data.memories.filter((memory) => memory.name === map.name).map((memory) =>
  Math.max(...memory.bytes, 1)), map.address.reduce((most, low, k) => Math.max(most, low + map.bytes[k]), 0));

/** @param {number} k a tensor of a map */
const tensorColour = (k) => theme(MAP_COLOURS[k % MAP_COLOURS.length]);

function drawMaps() {
  (data.placements || []).forEach((map, at) => {
    const canvas = mapCanvas(at);
    if (!map.label.length || !canvas.clientWidth) return;
    const scale = window.devicePixelRatio || 1, top = mapTop(map);
    canvas.style.height = `${MAP_HEIGHT}px`;
    canvas.width = Math.round(canvas.clientWidth * scale);
    canvas.height = Math.round(MAP_HEIGHT * scale);
    const pen = /** @type {Pen} */ (canvas.getContext("2d"));
    pen.scale(scale, scale);
    pen.font = "12px system-ui, sans-serif";
    pen.fillStyle = theme("soft");
    pen.fillText(bytes(top), 0, 12);
    pen.fillText("0 B", 0, MAP_HEIGHT - 3);
    pen.save();
    pen.beginPath();
    pen.rect(GUTTER, 0, plotWidth() + EDGE, MAP_HEIGHT);
    pen.clip();
    const colours = MAP_COLOURS.map(theme), chosen = Number(canvas.dataset.tensor ?? -1);
    let drawn = 0;
    for (let k = 0; k < map.label.length; k++) {
      if (map.end[k] < state.from || map.begin[k] > state.to) continue;
      drawn++;
      const left = toX(map.begin[k]), low = MAP_HEIGHT * (1 - map.address[k] / top);
      const width = Math.max(toX(map.end[k]) - left - 0.5, 0.7), height = Math.max(MAP_HEIGHT * map.bytes[k] / top - 0.5, 0.7);
      pen.fillStyle = colours[k % colours.length];
      pen.globalAlpha = chosen < 0 || chosen === k ? 0.8 : 0.3;
      pen.fillRect(left, low - height, width, height);
    }
    canvas.dataset.drawnTensors = String(drawn);
    pen.restore();
  });
}

/** @param {number} at a map @param {number} x @param {number} y */
function tensorAt(at, x, y) {
  const map = (data.placements || [])[at], top = mapTop(map);
  const ns = toTime(x), address = (1 - y / MAP_HEIGHT) * top;
  return map.label.findIndex((_, k) => map.begin[k] <= ns && ns <= map.end[k]
    && map.address[k] <= address && address <= map.address[k] + map.bytes[k]);
}

/** @param {number} at a map @param {number} k a tensor of it, or -1 */
function showTensor(at, k) {
  const map = (data.placements || [])[at], words = byId("tensor-words");
  if (k < 0) { words.textContent = ""; return; }
  const from = map.address[k];
  words.textContent = `${map.label[k] || "a tensor"} in ${map.name}: ${bytes(map.bytes[k])} in each of ${map.partitions[k]} ` +
    `partitions, at ${bytes(from)}, ${time(map.begin[k])} to ${time(map.end[k])}, first written by #${map.first[k]} ` +
    `${distinct(map.first[k]).opcode}, ${placeShort(spans.line[map.first[k]])}`;
}

/** @param {number} at a map @param {number} k a tensor of it, or -1 */
function chooseTensor(at, k) {
  (data.placements || []).forEach((_, other) => { mapCanvas(other).dataset.tensor = String(other === at ? k : -1); });
  if (k < 0) { draw(); return; }
  select((data.placements || [])[at].first[k], true);
  showTensor(at, k);
}

/** The arrows up and down go through the tensors. @param {number} at a map @param {KeyboardEvent} event */
function stepTensor(at, event) {
  const step = event.key === "ArrowDown" ? 1 : event.key === "ArrowUp" ? -1 : 0;
  if (!step) return;
  event.preventDefault();
  const most = (data.placements || [])[at].label.length - 1;
  chooseTensor(at, Math.min(Math.max(Number(mapCanvas(at).dataset.tensor ?? -1) + step, 0), most));
}
