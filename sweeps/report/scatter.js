// The live scatter: draws the option, finds the point under the mouse, finger or arrow keys, shows its tip, pins it.
// Picking is done here over pixel positions, because the library's own picking is off in its mode for many points, and
// because a finger needs a generous radius.

const scatter = {chart: null, drawn: null, pixels: null, hover: -1, order: null};

function scatter_view() {
  return {
    ...state,
    visible: current_selection().visible,
    narrow: is_narrow(),
    size: [by_id('scatter').clientWidth - 84, by_id('scatter').clientHeight - 72],
  };
}

function paint_scatter() {
  const container = by_id('scatter');
  scatter.chart = chart_in(container);
  scatter.drawn = scatter_option(state.model, scatter_view(), state.dark);
  scatter.chart.setOption(scatter.drawn.option);
  scatter.pixels = null;
  scatter.order = null;
  show_tip(-1);
  const {layout} = scatter.drawn;
  container.setAttribute(
    'aria-label',
    `Scatter chart of ${plural(layout.shown.length, 'configuration')}: ${column_title(layout.y)} against ` +
      `${column_title(layout.x)}. ${layout.front.points.length} on the line (${front_kinds[layout.front.kind].line}).`,
  );
  paint_legend();
  paint_scatter_note();
}

function paint_legend() {
  const {groups, layout, theme} = scatter.drawn;
  const shapes = state_order.filter(
    (word) => word !== 'failed' && [...layout.shown, ...layout.strip].some((i) => state.model.states[i] === word),
  );
  const shape_colour = (word) => (state.colour === 'status' ? theme.states[word] : theme.ink);
  const line = h('span', {
    class: layout.front.kind === 'tested' ? 'line-key' : 'line-key dashed',
    'aria-hidden': 'true',
  });
  line.style.borderColor = front_colour(layout.front.kind, theme);
  const title = front_kinds[layout.front.kind].line;
  const says_both = (word) => state_words[word] === title;
  const keys = shapes.map((word) =>
    h('span.key', state_icon(word, shape_colour(word)), says_both(word) ? line : null, state_words[word]),
  );
  if (!shapes.some(says_both)) keys.push(h('span.key', line, title));
  if (layout.local.length)
    keys.push(h('span.key', h('span.line-key.dotted', {'aria-hidden': 'true'}), 'best of the selection, by means'));
  if (state.colour !== 'status') {
    keys.push(h('span.break'));
    if (groups.ramp) {
      const bar = h('span.ramp', {'aria-hidden': 'true'});
      bar.style.background = `linear-gradient(90deg, ${groups
        .filter((group) => group.ramp)
        .map((group) => group.colour)
        .join(',')})`;
      keys.push(
        h(
          'span.key',
          `${column_title(groups.ramp.column)}: `,
          value_text(groups.ramp.column, groups.ramp.low),
          bar,
          value_text(groups.ramp.column, groups.ramp.high),
        ),
      );
    } else {
      const title = state.model.axis(state.colour.slice(5))?.label ?? '';
      keys.push(
        h('span.key.quiet', title + ':'),
        ...groups
          .filter((group) => group.count && !layout.shown.filter(group.test).every((i) => state.model.baseline[i]))
          .map((group) =>
            h('span.key', swatch(group.colour), group.name, h('span.quiet', ` ${group.count.toLocaleString('en')}`)),
          ),
      );
    }
  }
  fill(by_id('legend'), ...keys);
}

function paint_scatter_note() {
  const {layout} = scatter.drawn;
  const parts = [];
  if (layout.y_scale.kind === 'log') parts.push('The y axis is logarithmic on both sides of zero.');
  if (layout.x_scale.kind === 'log') parts.push('The x axis is logarithmic on both sides of zero.');
  const outside = [...layout.far].filter((i) => layout.shown.includes(i));
  if (outside.length && !state.range)
    parts.push(
      `Outside on the x axis: ${outside.map((i) => `${words_at(state.model.name, i) || 'a baseline'} at ${value_text(layout.x, layout.x.mean[i])}`).join(', ')}. “Show all” brings them in.`,
    );
  if (layout.strip.length)
    parts.push(
      `${plural(layout.strip.length, 'configuration')} with a diverged or failed run ${layout.strip.length === 1 ? 'stands' : 'stand'} in the strip on top: such a run has no loss.`,
    );
  if (layout.missing)
    parts.push(
      `${plural(layout.missing, 'configuration')} ${layout.missing === 1 ? 'is' : 'are'} not drawn: no value in one of the two columns.`,
    );
  const judged = state.x === state.model.head.x && state.y === state.model.head.y;
  if (!judged)
    parts.push(
      `Shapes tell the status in the view ${state.model.head.y} against ${state.model.head.x}; the line here is the front by means, which no test stands behind.`,
    );
  by_id('scatter-note').textContent = parts.join(' ');
}

// Drag with the mouse draws a box; the chart then shows only that part.
function drag_zoom(container) {
  let start = null;
  const box = h('div.zoom-box', {hidden: true});
  container.append(box);
  container.addEventListener('pointerdown', (event) => {
    if (event.pointerType === 'mouse' && event.button === 0) start = [event.offsetX, event.offsetY];
  });
  container.addEventListener('pointermove', (event) => {
    if (!start || Math.hypot(event.offsetX - start[0], event.offsetY - start[1]) < 8) return;
    show_tip(-1);
    box.hidden = false;
    const [left, top] = [Math.min(start[0], event.offsetX), Math.min(start[1], event.offsetY)];
    Object.assign(box.style, {
      left: `${left}px`,
      top: `${top}px`,
      width: `${Math.abs(event.offsetX - start[0])}px`,
      height: `${Math.abs(event.offsetY - start[1])}px`,
    });
  });
  window.addEventListener('pointerup', (event) => {
    if (!start) return;
    const from = start;
    start = null;
    if (box.hidden) return;
    box.hidden = true;
    scatter.dragged = true; // the click that follows is no click on a point
    const place = container.getBoundingClientRect();
    const to = [event.clientX - place.left, event.clientY - place.top];
    const corner = (px) => scatter.chart.convertFromPixel({gridIndex: 0}, px);
    const [a, b] = [corner(from), corner(to)];
    state.range = {x: [Math.min(a[0], b[0]), Math.max(a[0], b[0])], y: [Math.min(a[1], b[1]), Math.max(a[1], b[1])]};
    refresh('zoom');
  });
}

// `wide`: with the baselines far to the right.
function zoom_out(wide) {
  Object.assign(state, {range: null, wide});
  refresh('zoom');
}

function zoom_to_front() {
  const {layout} = scatter.drawn;
  const {x, y, x_scale, y_scale} = layout;
  const near = layout.context_points.filter(
    (i) => layout.front.points.includes(i) || state.model.states[i] === 'undecided',
  );
  const ys = near.flatMap((i) => [y.mean[i], y.low?.[i] ?? NaN, y.high?.[i] ?? NaN]);
  const wide = (range) => [range[0] - (range[1] - range[0]) * 0.12, range[1] + (range[1] - range[0]) * 0.12];
  state.range = {
    x: wide(
      plain_range(
        near.map((i) => x.mean[i]),
        x_scale,
      ),
    ),
    y: wide(plain_range(ys, y_scale)),
  };
  refresh('zoom');
}

function scatter_keys(event) {
  const {layout} = scatter.drawn;
  const {xs, ys, box, place} = pixel_positions();
  const in_view = (i) => xs[place.get(i)] >= box[0] && xs[place.get(i)] <= box[2] && ys[place.get(i)] <= box[3];
  scatter.order ??= layout.shown
    .filter(in_view)
    .sort((i, j) => layout.x.mean[i] - layout.x.mean[j] || layout.y.mean[i] - layout.y.mean[j]);
  const along = {ArrowRight: 1, ArrowLeft: -1}[event.key],
    front = {ArrowUp: -1, ArrowDown: 1}[event.key];
  const list = along ? scatter.order : layout.front.points.filter((i) => scatter.order.includes(i));
  if (along || front) {
    if (!list.length) return;
    const at = list.indexOf(scatter.hover);
    const next = at < 0 ? (along === -1 ? list.length - 1 : 0) : (at + (along ?? front) + list.length) % list.length;
    show_tip(list[next], true);
  } else if (event.key === 'Home' || event.key === 'End') {
    if (scatter.order.length) show_tip(scatter.order.at(event.key === 'Home' ? 0 : -1), true);
  } else if ((event.key === 'Enter' || event.key === ' ') && scatter.hover >= 0) {
    pin(scatter.hover);
  } else if (event.key === 'Escape') {
    show_tip(-1);
  } else {
    return;
  }
  event.preventDefault();
}

function setup_scatter() {
  const container = by_id('scatter');
  on_change('task view filter pins theme zoom size', paint_scatter);
  const at = (event) => {
    const place = container.getBoundingClientRect();
    return [event.clientX - place.left, event.clientY - place.top];
  };
  container.addEventListener('pointermove', (event) => {
    if (event.buttons || !scatter.drawn) return;
    const found = point_at(...at(event), event.pointerType === 'mouse' ? 14 : 24);
    if (found !== scatter.hover) show_tip(found);
  });
  container.addEventListener('pointerleave', () => show_tip(-1));
  container.addEventListener('click', (event) => {
    if (scatter.dragged) {
      scatter.dragged = false;
      return;
    }
    const found = point_at(...at(event), event.pointerType === 'mouse' ? 14 : 24);
    if (found >= 0) {
      pin(found);
      if (is_narrow()) by_id('panel').scrollIntoView({behavior: 'smooth', block: 'start'});
    }
  });
  container.addEventListener('keydown', scatter_keys);
  container.addEventListener('dblclick', () => zoom_out(false));
  drag_zoom(container);
  const button = (text, title, action) => h('button.plain', {title, onclick: action}, text);
  by_id('zoom').append(
    button('Zoom to front', 'Show only the region of the front', zoom_to_front),
    button('Show all', 'Show every point, baselines far to the right too', () => zoom_out(true)),
  );
  by_id('scatter-help').textContent =
    'Click a point to pin it (up to four). Drag a box to zoom, double click to go back. ' +
    'With the keyboard: ← → walk over the points, ↑ ↓ along the front, Enter pins.';
}
