// The panel beside the chart: the list of front configurations, and a tab for every pinned one.

// The front in the view it was judged for, and the candidates beside it, in the order of cost.
function front_rows() {
  const {model} = state;
  const [x, y] = judged_columns();
  const points = context_points();
  const front = front_of(model, points, x, y);
  const near = points
    .filter((i) => ['undecided', 'candidate'].includes(model.states[i]) && !front.points.includes(i))
    .sort((i, j) => direction(x) * (x.mean[i] - x.mean[j]));
  return {...front, near};
}

// What a reader compares, in the order of x: the front without its baselines or, where it holds baselines only, the best
// candidates by means (of all configurations, where none is near the front). `from`: front or candidates.
function best_rows() {
  const {model} = state;
  const {points, near, kind} = front_rows();
  const own = (list) => list.filter((i) => !model.baseline[i]);
  if (own(points).length) return {points: own(points), from: kind === 'undecided' ? 'candidates' : 'front'};
  const open = own(near);
  const rest = open.length
    ? open
    : own(context_points()).filter((i) => !['diverged', 'failed'].includes(model.states[i]));
  return {points: front_by_means(rest, ...judged_columns()), from: 'candidates'};
}

// The number of a point in the list of the front, as the charts show it; 0 off the front.
const front_number = (point) => front_rows().points.indexOf(point) + 1;

// The letter of a pinned point; '' of others.
const pin_letter = (point) => (state.pins.includes(point) ? String.fromCharCode(65 + state.pins.indexOf(point)) : '');

// "3 · A: scale=ue5m3 +2 more": number on the front, letter of the pin, what it is.
function row_title(point, limit) {
  const rank = front_number(point),
    letter = pin_letter(point);
  return (rank ? `${rank} · ` : '') + (letter ? `${letter}: ` : '') + point_label(state.model, point, limit);
}

function difference_chips(point, limit = Infinity) {
  const naming = shown_name(state.model, point) ? [] : naming_axes(state.model, words_at(state.model.context, point));
  if (naming.length)
    return naming.map((axis) =>
      h('span.chip', {title: axis.name}, axis.label, ' ', h('b', axis.values[axis.codes[point]] || 'none')),
    );
  // The name of a recipe is its title already.
  const changes = differences(state.model, point).filter(({value}) => value !== shown_name(state.model, point));
  const shown = changes
    .slice(0, limit)
    .map(({axis, value, reference}) =>
      h('span.chip', {title: `${axis.name}: ${reference} in the base`}, axis.label, ' ', h('b', value)),
    );
  if (changes.length > limit) shown.push(h('span.chip', `+${changes.length - limit}`));
  if (!changes.length && !shown_name(state.model, point)) shown.push(h('span.chip', 'base configuration'));
  return shown;
}

// `tied`: the points that a reader may take in its place, listed below it.
function front_entry(point, rank = 0, tied = []) {
  const {model} = state;
  const [x, y] = judged_columns();
  const name = shown_name(model, point);
  return h(
    'li',
    h(
      'button.entry',
      {
        'data-hash': model.hash[point],
        onclick: () => pin(point),
        onmouseenter: () => show_tip(scatter.drawn.layout.shown.includes(point) ? point : -1),
        onmouseleave: () => show_tip(-1),
      },
      h(
        'span.entry-head',
        rank ? h('span.rank', String(rank)) : null,
        state_icon(model.states[point]),
        h('b', name || value_text(x, x.mean[point])),
        name ? h('span', value_text(x, x.mean[point])) : null,
        h(
          'span.entry-value',
          value_text(y, y.mean[point]),
          h('span.quiet', spread_text((v) => value_text(y, v, 2), y.mean[point], y.low?.[point], y.high?.[point])),
        ),
        pin_letter(point) ? h('span.letter', pin_letter(point)) : null,
      ),
      h('span.chips', difference_chips(point, 5)),
    ),
    tied.length
      ? h(
          'div.tied',
          h('p.quiet.small', 'tied with it:'),
          h(
            'ul.entries',
            tied.map((other) => front_entry(other)),
          ),
        )
      : null,
  );
}

function front_list() {
  const {model} = state;
  const {points, near, kind} = front_rows();
  const [x, y] = judged_columns();
  return h(
    'div',
    h(
      'p.quiet.small',
      front_kinds[kind].note,
      ` Numbers as in the chart; then ${x.label}; on the right ${y.label}${y.unit && y.unit !== 'share' ? ` in ${y.unit}` : ''}.`,
    ),
    h(
      'ul.entries',
      points.map((point, k) => front_entry(point, k + 1, tied_with(model, point, x))),
    ),
    near.length
      ? h(
          'details',
          {open: near.length <= 12},
          h('summary', `${plural(near.length, 'more candidate')}`),
          h(
            'p.quiet.small',
            'Undecided or not yet confirmed: their seeds neither put them on the front nor rule them out.',
          ),
          h(
            'ul.entries',
            near.slice(0, 100).map((point) => front_entry(point)),
          ),
        )
      : null,
  );
}

function paint_panel() {
  const {model} = state;
  const panel = by_id('panel');
  const rows = front_rows();
  const choose = (what) => {
    state.panel = what;
    refresh('panel');
  };
  const tab = (what, text, close) =>
    h(
      'span',
      {class: state.panel === what ? 'tab current' : 'tab'},
      h('button', {'aria-pressed': String(state.panel === what), onclick: () => choose(what)}, text),
      close
        ? h('button.close', {title: 'Unpin', 'aria-label': `Unpin ${text}`, onclick: () => unpin(what)}, '×')
        : null,
    );
  fill(
    panel,
    h(
      'div.tabs',
      tab('front', `${front_kinds[rows.kind].title} (${rows.points.length})`),
      state.pins.map((point) => tab(point, `Pin ${pin_letter(point)}`, true)),
    ),
    h('div.panel-body', {tabindex: 0, id: 'panel-body', role: 'region', 'aria-label': 'Details'}),
  );
  const body = by_id('panel-body');
  if (state.panel === 'front') body.append(front_list());
  else paint_detail(body, state.panel);
}
