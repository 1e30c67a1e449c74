// What a report holds (trnsim.profile.analysis.data) and what the page makes of it, for the type
// checker alone: `make check` reads the JSDoc of the scripts against it. No page contains it.

/** `step` is the page of the step that the kernel is a part of. */
interface Report { title: string; profiles: Profile[]; step?: string }
interface Profile {
  title: string; kernel: string; target: string; summary: Summary; warnings: string[];
  semaphore_ns: number; device_ns: number;
  distinct: { opcode: string; engine: string; operands: string[] }[];
  lines: { file: string; line: number; text: string }[];
  /** Whole files of the lines; reports of an earlier trnsim have none, nor placements. */
  sources?: { file: string; text: string }[];
  placements?: Placement[];
  spans: Spans;
  critical: number[];
  memories: { name: string; capacity_bytes: number; time: number[]; bytes: number[] }[];
  hbm: { time: number[]; bytes_per_s: number[] };
  roofline: Roofline;
  by_line: { line: number; instructions: number; busy_ns: number; critical_ns: number; waiting_ns: number }[];
  advice: Advice[];
  gains: (Gain & { change: string })[];
  edges?: KernelEdge[];
  facts: { name: string; value: number; kind: string; source: string }[];
  model?: Model;
}
/** What stands above the program of a model (trnsim.profile.analysis.model_estimate). */
interface Model {
  time_ns: number; launch_ns: number; device_ns: number; exchanges_ns: number; bound_ns: number;
  likely_ns?: number[];
  binds: "products" | "HBM" | "links"; flop: number; hbm_bytes: number; mfu: number; mbu: number;
  programs: number; layers: number; compiled: number; said: string[];
  modules: ModelRow[]; operations: ModelRow[];
  engines: { engine: string; critical_ns: number; busy_ns: number }[];
  traffic: { reason: string; bytes: number }[];
}
/** A module has a path, a depth and a number of equal layers; an operation has a name. */
interface ModelRow {
  path?: string; own_ns?: number; depth?: number; times: number; name: string;
  instructions: number; time_ns: number; bound_by: string; hbm_bytes: number;
}
/** The edges of a statement of the kernel, (consumer, producer) each; without times if not tried. */
interface KernelEdge {
  form: string; kind: "runtime" | "schedule"; text: string; line: number; pairs: number[][]; edges: number;
  with_ns?: number | null; without_ns?: number | null; gain_ns?: number | null;
}
/** Tensors of a memory, a list a property: bytes and addresses within a partition, times in ns. */
interface Placement {
  name: string; tensors: number; label: string[]; begin: number[]; end: number[]; address: number[];
  bytes: number[]; partitions: number[]; first: number[];
}
/** What a line of the source waited for: nanoseconds by cause in words. */
interface Stall { words: string; ns: number }
interface Gain { line: number; gain_ns: number }
interface Advice extends Gain { rule: string; text: string; source: string }
/** A list a property; the predecessors of i are waits[waits_from[i]] to waits[waits_from[i + 1] - 1]. */
interface Spans {
  start: number[]; busy: number[]; latency: number[]; waited_for: number[]; which: number[];
  line: number[]; waits_from: number[]; waits: number[];
}
/** What an estimate assumes; transfers are counted by the maker of their descriptors. */
interface Conditions {
  transfers: Record<string, number>; is_dge_assumed: boolean; order: string; lnc: number;
  launch_s: number; launch_p10_s: number; launch_p90_s: number;
}
interface Summary {
  target: string; bound_by: string; metrics: Metrics; missing: Record<string, string>;
  facts: Record<string, number>; engines: { engine: string; active_share: number }[];
  total_time_s: number; total_time_p10_s: number; total_time_p90_s: number; device_time_s: number;
  unseen_error: string; order: string; conditions: Conditions;
  launch_s: number; waiting_share: number;
  sbuf_peak_bytes: number; sbuf_bytes: number; psum_peak_bytes: number; psum_bytes: number;
}
/** Figures by Neuron Explorer's names; null is unknown, and `missing` says why. */
interface Metrics {
  [name: string]: number | null;
  mbu_estimated_percent: number; mfu_estimated_percent: number; hfu_estimated_percent: number;
  hbm_read_bytes: number; hbm_write_bytes: number; hardware_flops: number;
}
interface Roofline {
  peak_flop_per_s: number; hbm_bytes_per_s: number; flop_per_byte: number | null;
  flop_per_s: number; best_flop_per_s: number; opcodes: { opcode: string; flop_per_s: number }[];
}

/** The roofline of a profile that has a point, with its place in the report. */
interface Point extends Roofline { flop_per_byte: number; at: number; name: string }
interface Dot { kind: string; label: string; at: number; value: number; words: string }
/** Limits of the two axes, and the place of a value in the drawing. */
interface RoofScale {
  x0: number; x1: number; y0: number; y1: number;
  x: (value: number) => number; y: (value: number) => number;
}
/** An engine's row of the timeline: its instructions in order of start. */
interface Lane { label: string; indices: number[]; height: number; top: number; longest: number }
/** A quantity in steps, drawn under the lanes. */
interface Level {
  name: string; words: (n: number) => string; capacity: number; time: number[]; values: number[];
  highest: number;
}
/** One span that is drawn, or several in a column of pixels: `bin` is its number. */
interface Box {
  i: number; left: number; right: number; bin: number | null; covered: number; critical: number;
  chosen: boolean;
}
/** How much a drawing shows. */
interface Drawn { rectangles: number; instructions: number }
/** Where the pointer went down, and the window then. */
interface Drag { x: number; from: number; to: number; moved: boolean }
type Content = Node | string;
/** What a cell holds, and its class. */
type Cell = [Content, string?];
type Pen = CanvasRenderingContext2D;
type Units = [number, string][];
