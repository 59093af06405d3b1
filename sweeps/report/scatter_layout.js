// Which points the scatter shows, where, and on which scales: shared by the drawing and the mouse.

// Drawn small and without intervals: the many.
const crowd_states = new Set(['off', 'candidate']);

function plain_range(values, scale) {
  let low = Infinity,
    high = -Infinity;
  for (const value of values) {
    if (!Number.isFinite(value)) continue;
    const place = scale.to(value);
    low = Math.min(low, place);
    high = Math.max(high, place);
  }
  if (!(high >= low)) return [0, 1];
  const pad = (high - low || Math.abs(high) || 1) * 0.05;
  return [low - pad, high + pad];
}

// Baselines so far off (fp32 at 15 times the cost) that they would set the axis: farther from the rest than three times
// the spread of what is compared, or so that this would shrink to a quarter of the axis. They are named at the edge
// instead, unless the view is `wide`.
function far_baselines(model, points, column) {
  const own = points.filter((i) => !model.baseline[i]).map((i) => column.mean[i]);
  const far = new Set();
  if (new Set(own).size < 2) return far;
  const [low, high] = [Math.min(...own), Math.max(...own)];
  const distance = (i) => Math.max(low - column.mean[i], column.mean[i] - high, 0);
  const is_outside = (i) => distance(i) > 3 * (high - low);
  for (const i of points
    .filter((k) => model.baseline[k] && distance(k) > 0)
    .sort((a, b) => distance(b) - distance(a))) {
    const values = points.filter((k) => !far.has(k)).map((k) => column.mean[k]);
    const {to} = make_scale(default_scale(values), values);
    const span = Math.max(...values.map(to)) - Math.min(...values.map(to));
    if (to(high) - to(low) >= 0.25 * span && !is_outside(i)) break;
    far.add(i);
  }
  return far;
}

// Everything the option and the mouse need to know about what is drawn. Scales follow the whole context, so that a
// filter does not bend them under a zoomed view; ranges follow what is visible.
function scatter_layout(model, view) {
  const x = model.column(view.x),
    y = model.column(view.y);
  const context_points = rows_with(model.count, (i) => words_at(model.context, i) === view.context);
  const bad = (i) => model.states[i] === 'diverged' || model.states[i] === 'failed';
  const placed = (i) => !bad(i) && Number.isFinite(x.mean[i]) && Number.isFinite(y.mean[i]);
  const shown = view.visible.filter(placed);
  const strip = view.visible.filter((i) => bad(i) && Number.isFinite(x.mean[i]));
  const missing = view.visible.length - shown.length - strip.length;
  const front = front_of(model, context_points, x, y);
  const filtered = view.visible.length < context_points.length;
  const local = filtered ? front_by_means(shown, x, y) : [];
  const far = view.wide ? new Set() : far_baselines(model, context_points.filter(placed), x);
  const near = (i) => !far.has(i);
  const scale_of = (wish, points, column) => {
    const values = points.map((i) => column.mean[i]).filter((v) => Number.isFinite(v));
    return make_scale(wish === 'auto' ? default_scale(values) : wish, values);
  };
  const x_scale = scale_of(view.x_scale, context_points.filter(near), x);
  const y_scale = scale_of(view.y_scale, context_points.filter(placed), y);
  const x_values = [...shown, ...strip].filter(near).map((i) => x.mean[i]);
  const y_values = shown.map((i) => y.mean[i]);
  for (const i of front.points) if (y.low && Number.isFinite(y.low[i])) y_values.push(y.low[i], y.high[i]);
  const range = {
    x: view.range?.x ?? plain_range(x_values, x_scale),
    y: view.range?.y ?? plain_range(y_values, y_scale),
  };
  // Room at the right edge for the names of what lies beyond it.
  if (!view.range && x_values.length && [...far].some((i) => x_scale.to(x.mean[i]) > range.x[1])) {
    const share = Math.min((view.narrow ? 44 : 96) / (view.size ?? [700])[0], 0.3);
    range.x = [range.x[0], range.x[1] + ((range.x[1] - range.x[0]) * share) / (1 - share)];
  }
  const interval_points =
    !y.low || view.intervals === 'none'
      ? []
      : view.intervals === 'all'
        ? shown
        : shown.filter((i) => !crowd_states.has(model.states[i]) || model.baseline[i] || view.pins.includes(i));
  return {x, y, shown, strip, missing, front, local, far, x_scale, y_scale, range, interval_points, context_points};
}
