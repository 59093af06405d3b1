// What is under the mouse, finger or arrow keys, and the box that tells about it.

function pixel_positions() {
  if (scatter.pixels) return scatter.pixels;
  const {layout} = scatter.drawn;
  const {range, x_scale, y_scale} = layout;
  const [x0, y0] = scatter.chart.convertToPixel({gridIndex: 0}, [range.x[0], range.y[0]]);
  const [x1, y1] = scatter.chart.convertToPixel({gridIndex: 0}, [range.x[1], range.y[1]]);
  const points = [...layout.shown, ...layout.strip];
  const xs = new Float32Array(points.length),
    ys = new Float32Array(points.length);
  const strip_y = layout.strip.length ? scatter.chart.convertToPixel({gridIndex: 1}, [range.x[0], 0])[1] : 0;
  points.forEach((i, k) => {
    xs[k] = x0 + ((x_scale.to(layout.x.mean[i]) - range.x[0]) / (range.x[1] - range.x[0])) * (x1 - x0);
    ys[k] =
      k < layout.shown.length
        ? y0 + ((y_scale.to(layout.y.mean[i]) - range.y[0]) / (range.y[1] - range.y[0])) * (y1 - y0)
        : strip_y;
  });
  scatter.pixels = {
    points,
    xs,
    ys,
    box: [x0, Math.min(y0, y1), x1, Math.max(y0, y1)],
    place: new Map(points.map((i, k) => [i, k])),
  };
  return scatter.pixels;
}

// The nearest point within `radius`; front points and pins win over the crowd around them.
function point_at(px, py, radius) {
  const {points, xs, ys, box} = pixel_positions();
  let best = -1,
    best_distance = radius * radius;
  for (let k = 0; k < points.length; ++k) {
    const dx = xs[k] - px,
      dy = ys[k] - py;
    let distance = dx * dx + dy * dy;
    if (distance > radius * radius || xs[k] < box[0] - 4 || xs[k] > box[2] + 4 || ys[k] > box[3] + 4) continue;
    if (state.model.states[points[k]] !== 'off') distance *= 0.35;
    if (distance < best_distance) {
      best_distance = distance;
      best = points[k];
    }
  }
  return best;
}

function tip_content(point) {
  const {model} = state;
  const {layout} = scatter.drawn;
  const word = model.states[point];
  const changes = differences(model, point);
  const name = shown_name(model, point);
  const rows = [layout.y, layout.x].map((column) => [
    column.label,
    column.low
      ? interval_text(column, column.mean[point], column.low[point], column.high[point])
      : value_text(column, column.mean[point]),
  ]);
  const bad = model.diverged[point]
    ? `${model.diverged[point]} of ${model.diverged[point] + model.seeds[point]} runs diverged`
    : '';
  return [
    h(
      'p.tip-head',
      state_icon(word),
      name ? h('b', name + ' ') : null,
      state_words[word],
      model.baseline[point] ? ' · baseline' : '',
    ),
    tip_table([...rows, ['seeds', String(model.seeds[point]) + (bad ? ` (${bad})` : '')]]),
    changes.length
      ? h(
          'div',
          h('p.quiet.small', 'differs from the base in'),
          tip_table(
            changes
              .slice(0, 7)
              .map(({axis, value, reference}) => [axis.label, [h('s.quiet', reference), ' ', h('b', value)]]),
          ),
          changes.length > 7 ? h('p.quiet.small', `and ${changes.length - 7} more`) : null,
        )
      : model.baseline[point]
        ? null
        : h('p.quiet.small', 'the base configuration'),
    h('p.quiet.small', state.pins.includes(point) ? 'pinned' : 'click to pin'),
  ];
}

function show_tip(point, by_key = false) {
  const container = by_id('scatter');
  let tip = container.querySelector('.tip');
  if (!tip) {
    tip = h('div.tip', {hidden: true});
    const ring = h('div.hover-ring', {hidden: true});
    container.append(ring, tip);
  }
  const ring = container.querySelector('.hover-ring');
  scatter.hover = point;
  tip.hidden = ring.hidden = point < 0;
  container.style.cursor = point < 0 ? '' : 'pointer';
  if (point < 0) return;
  const {xs, ys, place, box} = pixel_positions();
  const k = place.get(point);
  fill(tip, tip_content(point));
  // A point outside of the zoomed part has a tip at the nearest edge, and no ring.
  const px = Math.min(Math.max(xs[k], box[0]), box[2]),
    py = Math.min(Math.max(ys[k], 0), box[3]);
  ring.hidden = px !== xs[k] || py !== ys[k];
  ring.style.transform = `translate(${px - 11}px, ${py - 11}px)`;
  const {offsetWidth, offsetHeight} = tip;
  const left = px + 16 + offsetWidth < container.clientWidth ? px + 16 : Math.max(4, px - 16 - offsetWidth);
  const top = Math.min(Math.max(4, py - offsetHeight / 2), container.clientHeight - offsetHeight - 4);
  tip.style.transform = `translate(${left}px, ${Math.max(4, top)}px)`;
  if (by_key) by_id('scatter-live').textContent = tip.textContent;
}
