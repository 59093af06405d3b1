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

// Everything the option and the mouse need to know about what is drawn.
function scatter_layout(model, view) {
  const x = model.column(view.x),
    y = model.column(view.y);
  const context_points = [];
  for (let i = 0; i < model.count; ++i) if (words_at(model.context, i) === view.context) context_points.push(i);
  const bad = (i) => model.states[i] === 'diverged' || model.states[i] === 'failed';
  const shown = view.visible.filter((i) => !bad(i) && Number.isFinite(x.mean[i]) && Number.isFinite(y.mean[i]));
  const strip = view.visible.filter((i) => bad(i) && Number.isFinite(x.mean[i]));
  const missing = view.visible.length - shown.length - strip.length;
  const front = front_of(model, context_points, x, y);
  const filtered = view.visible.length < context_points.length;
  const local = filtered ? front_by_means(shown, x, y) : [];
  const x_values = [...shown, ...strip].map((i) => x.mean[i]);
  const y_values = shown.map((i) => y.mean[i]);
  const x_kind = view.x_scale === 'auto' ? default_scale(x_values) : view.x_scale;
  const y_kind = view.y_scale === 'auto' ? default_scale(y_values) : view.y_scale;
  const x_scale = make_scale(x_kind, x_values),
    y_scale = make_scale(y_kind, y_values);
  for (const i of front.points) {
    if (y.low && Number.isFinite(y.low[i])) y_values.push(y.low[i], y.high[i]);
  }
  const range = {
    x: view.range?.x ?? plain_range(x_values, x_scale),
    y: view.range?.y ?? plain_range(y_values, y_scale),
  };
  const interval_points =
    !y.low || view.intervals === 'none'
      ? []
      : view.intervals === 'all'
        ? shown
        : shown.filter((i) => !crowd_states.has(model.states[i]) || model.baseline[i] || view.pins.includes(i));
  return {x, y, shown, strip, missing, front, local, x_scale, y_scale, range, interval_points, context_points};
}
