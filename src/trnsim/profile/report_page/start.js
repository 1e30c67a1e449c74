// Comes last: shows a profile, and follows the fragment.

// The fragment: #profile=1 chooses the target, select an instruction, from and to (nanoseconds) the
// window.

function writeFragment() {
  const parts = [state.profile ? `profile=${state.profile}` : "", state.selected < 0 ? "" : `select=${state.selected}`];
  const fragment = parts.filter(Boolean).join("&");
  try { history.replaceState(null, "", fragment ? `#${fragment}` : " "); } catch { /* some viewers forbid it */ }
}

function readFragment() {
  const wanted = new URLSearchParams(location.hash.slice(1));
  const profile = Number(wanted.get("profile") ?? 0);
  /** @type {[number, number] | null} */
  const shown = wanted.has("from") && wanted.has("to") ? [Number(wanted.get("from")), Number(wanted.get("to"))] : null;
  state.isLoading = true; // one drawing is enough
  openProfile(Number.isInteger(profile) && report.profiles[profile] ? profile : 0);
  if (shown) show(...shown);
  state.isLoading = false;
  const i = Number(wanted.get("select") ?? -1);
  select(Number.isInteger(i) && i >= 0 && i < count ? i : -1, true);
}

/** @param {number} profile */
function openProfile(profile) {
  use(profile);
  showModel();
  showCards();
  showAdvice();
  showGains();
  showEdges();
  showTargets();
  showLines();
  showSources();
  showMaps();
  showRoofline();
  showFacts();
  showFigures();
  fit();
}

listenToPointer();
listenToKeys();
readFragment();
window.addEventListener("hashchange", readFragment);
window.addEventListener("resize", () => { draw(); showRoofline(); });
window.matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  showTargets();
  showRoofline();
  select(state.selected, false);
});
