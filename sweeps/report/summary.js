// The head of the page: its answer as a sentence, what stands behind it in short, the reading guide, and where the
// numbers come from.

// What the front of the context says; a page without answers says which front it shows.
function paint_answer() {
  const {model} = state;
  const {points, kind} = front_rows();
  const all = context_points();
  const diverged = all.filter((i) => model.states[i] === 'diverged').length;
  const own = model.head.answers?.find(({context}) => context === state.context);
  by_id('subtitle').textContent = `fp4sim report${model.head.workload ? `, costs of ${model.head.workload}` : ''}`;
  by_id('answer-text').textContent = own?.text ?? '';
  fill(
    by_id('answer-state'),
    h(
      'span.badge',
      state_icon(front_kinds[kind].icon),
      h('span', front_kinds[kind].tag, h('span.roomy', front_kinds[kind].more)),
    ),
    h(
      'span.roomy',
      ` ${points.length.toLocaleString('en')} of ${plural(all.length, 'configuration')} on the line, ` +
        `${diverged ? `${diverged.toLocaleString('en')} diverged` : 'none diverged'}; ` +
        `${plural(model.tables.runs.rows, 'training run')}.`,
    ),
    ` ${meaning_of_columns()}`,
  );
  paint_answer_table();
}

// What the two columns of the chart mean, in a line.
const column_meanings = {
  overhead: 'Overhead: how much longer a step takes than an ideal one in FP4.',
  quantisation_overhead: 'Quantisation overhead: the time that a recipe’s own conversions add to a step.',
  loss_gap: 'Loss gap: the loss above that of fp32.',
  loss_hp_gap: 'Loss gap: the loss above that of fp32, measured in high precision.',
};
const meaning_of_columns = () =>
  [state.model.head.x, state.model.head.y]
    .map((name) => column_meanings[name] ?? '')
    .join(' ')
    .trim();

// The quality at every value of one axis, or of two, beside the answer: the best mean in bold.
function paint_answer_table() {
  const {model} = state;
  const y = model.column(model.head.y);
  const place = by_id('answer-table');
  const axes = naming_axes(model, state.context);
  const points = context_points().filter((i) => !model.baseline[i] && Number.isFinite(y.mean[i]));
  place.hidden = !axes.length || points.length < 2;
  by_id('explore').classList.toggle('below-table', !place.hidden);
  if (place.hidden) return;
  const count = (axis) => new Set(points.map((i) => axis.codes[i])).size;
  const [rows, columns] = axes.length === 1 || count(axes[0]) >= count(axes[1]) ? axes : [axes[1], axes[0]];
  const used = (axis) => axis.order.filter((code) => points.some((i) => axis.codes[i] === code));
  const text = (axis, code) => axis.values[code] || 'none';
  const at = (row, column) =>
    points
      .filter((i) => rows.codes[i] === row && (!columns || columns.codes[i] === column))
      .sort((i, j) => direction(y) * (y.mean[i] - y.mean[j]))[0];
  const best = [...points].sort((i, j) => direction(y) * (y.mean[i] - y.mean[j]))[0];
  const largest = Math.max(...points.map((i) => Math.abs(y.mean[i])));
  const cell = (i) => {
    if (i === undefined) return h('td.number.quiet', '–');
    const value = even_text(y, y.mean[i], largest);
    const spread = h('span.quiet', spread_text((v) => even_text(y, v, largest), y.mean[i], y.low?.[i], y.high?.[i]));
    return h('td.number', y.mean[i] === y.mean[best] ? h('b', value) : value, spread);
  };
  fill(
    place,
    h(
      'table.answer-values',
      h('caption', `${column_title(y)} by ${rows.label}${columns ? ` and ${columns.label}` : ''}`),
      columns
        ? h(
            'thead',
            h(
              'tr',
              h('td'),
              used(columns).map((code) => h('th', {scope: 'col'}, text(columns, code))),
            ),
          )
        : null,
      h(
        'tbody',
        used(rows).map((row) =>
          h(
            'tr',
            h('th', {scope: 'row'}, text(rows, row)),
            columns ? used(columns).map((column) => cell(at(row, column))) : cell(at(row)),
          ),
        ),
      ),
    ),
  );
}

function card(title, main, ...rest) {
  return h('div.card.fact', h('h2', title), h('p.big', main), ...rest);
}

// long: the cards of a page, one after another
function paint_summary() {
  const {model} = state;
  const [x, y] = judged_columns();
  const all = context_points();
  const {points, near, kind} = front_rows();
  const {points: own, from} = best_rows();
  const only_baselines = points.length > 0 && points.every((i) => model.baseline[i]);
  const groups = effect_groups(current_task());
  const diverged = all.filter((i) => model.states[i] === 'diverged').length;
  const link = (point, text) =>
    h(
      'button.link',
      {
        onclick: () => {
          pin(point);
          by_id('explore').scrollIntoView({behavior: 'smooth'});
        },
      },
      text,
    );
  const cards = [
    card(
      'On the front',
      kind === 'undecided'
        ? 'none for certain'
        : `${points.length.toLocaleString('en')} of ${all.length.toLocaleString('en')}`,
      h('p', h('span.badge', state_icon(front_kinds[kind].icon), front_kinds[kind].tag)),
      h(
        'p.small',
        only_baselines
          ? `Only ${points.map((i) => words_at(model.name, i)).join(' and ')}: no quantised configuration is on it for certain.`
          : front_kinds[kind].words,
      ),
      h(
        'p.quiet.small',
        near.length ? `${plural(near.length, 'more candidate')}. ` : '',
        diverged ? `${plural(diverged, 'configuration')} diverged.` : 'None diverged.',
      ),
    ),
  ];
  if (own.length) {
    const extreme = (point, title) =>
      h(
        'p.extreme',
        h('span.quiet', title),
        h('b', value_text(x, x.mean[point])),
        h('span', `${y.label} ${value_text(y, y.mean[point])}`),
        link(point, point_label(model, point, 2)),
      );
    const others = all
      .filter((i) => model.baseline[i] && Number.isFinite(x.mean[i]))
      .sort((i, j) => direction(x) * (x.mean[i] - x.mean[j]));
    cards.push(
      card(
        (from === 'front' ? 'What the front costs' : 'What the best candidates cost') +
          (others.length ? ', baselines aside' : ''),
        own.length > 1
          ? `${value_text(x, x.mean[own[0]])} to ${value_text(x, x.mean[own.at(-1)])}`
          : value_text(x, x.mean[own[0]]),
        extreme(own[0], 'cheapest'),
        own.length > 1 ? extreme(own.at(-1), 'most accurate') : null,
        others.length
          ? h(
              'p.quiet.small',
              `${x.label} of ${others
                .slice(0, 4)
                .map((i) => `${words_at(model.name, i)} ${value_text(x, x.mean[i])}`)
                .join(', ')}`,
            )
          : null,
      ),
    );
  }
  if (groups.length > 1) {
    const best = Math.max(...groups.map((group) => group.size)) || 1;
    const bars = groups.slice(0, 4).map((group) => {
      const bar = h('span.mini-bar');
      bar.style.width = `${Math.max((100 * group.size) / best, 1)}%`;
      return h(
        'tr',
        h('th', {scope: 'row', title: group.name}, group.label),
        h('td.mini', bar),
        h('td.number', even_text(y, group.size, best)),
      );
    });
    cards.push(
      card(
        'What matters most',
        groups[0].label,
        h('table.minis', bars),
        h(
          'p.quiet.small',
          `Largest change of ${y.label} along the axis. `,
          h('a.more', {href: '#effects'}, 'All effects'),
        ),
      ),
    );
  }
  // A note that opens with a context's name belongs to that context alone.
  const others = model.context.values.filter((context) => context !== state.context);
  const notes = model.head.notes.filter((note) => !others.some((context) => note.startsWith(context + ': ')));
  fill(by_id('cards'), cards);
  by_id('notes').hidden = !notes.length;
  fill(
    by_id('notes'),
    notes.map((note) => h('li', note)),
  );
  by_id('explore-intro').textContent =
    `Every point is one configuration of ${state.context}. Lower and further left is better: ${y.label} is what a technique loses, ${x.label} what it costs.`;
}

// A context's name without the folders of its fields.
const short_context = (context) => context.replace(/task\.(\*|\w+)\./g, '');

// The point of another context with the name and the values of `point`; -1 where there is none.
function same_settings(point, context) {
  const {model} = state;
  const same = (i) =>
    words_at(model.name, i) === words_at(model.name, point) &&
    model.baseline[i] === model.baseline[point] &&
    model.axes.every((axis) => axis.codes[i] === axis.codes[point]);
  return context_points(context).find(same) ?? -1;
}

function choose_context(context) {
  const pins = state.pins.map((point) => same_settings(point, context)).filter((point) => point >= 0);
  Object.assign(state, {context, range: null, wide: false, panel: 'front', pins});
  state.filters.clear();
  const was_usual = state.colour === state.usual_colour;
  const wish = state.colour;
  choose_usual_colour();
  if (!was_usual && (!wish.startsWith('axis ') || varied_axes().some((axis) => 'axis ' + axis.name === wish)))
    state.colour = wish;
  refresh('task');
}

// One context at a time: few as buttons, many in a list.
function paint_contexts() {
  const contexts = [...state.model.context.values].sort(natural_order);
  const place = by_id('tasks');
  place.hidden = contexts.length < 2;
  const few = contexts.length <= 6 && contexts.map(short_context).join('').length < 130;
  place.className = few ? 'segments' : '';
  fill(
    place,
    few
      ? segments(
          contexts.map((context) => [context, short_context(context)]),
          state.context,
          choose_context,
        )
      : select_box(
          'choose-context',
          'task',
          contexts.map((context) => ({value: context, text: short_context(context)})),
          state.context,
          choose_context,
        ),
  );
}

function paint_guide() {
  const {model} = state;
  const [x, y] = judged_columns();
  const entry = (term, text) => [h('dt', term), h('dd', text)];
  const shape = (word) => h('span.state-cell', state_icon(word), state_words[word]);
  fill(
    by_id('guide-text'),
    h(
      'dl',
      model.columns
        .filter((column) => column.doc && has_values(column))
        .map((column) => entry(column_title(column), column.doc)),
      state_rows
        .filter(({meaning}) => meaning)
        .map(({name, meaning}) => entry(shape(name), meaning.replace('{x}', x.label).replace('{y}', y.label))),
      entry(
        'interval',
        '95 %, Student t over seeds; none below three seeds. Two configurations must be compared by their paired difference, not by whether two intervals overlap.',
      ),
      entry(
        'link',
        'The address bar keeps task, axes, scales, colour, filters and pins: copy it to show someone this view.',
      ),
      entry(
        'base',
        `The configuration that has the reference value on every axis: ${
          model.axes
            .filter((axis) => axis.reference)
            .map((axis) => `${axis.label}=${axis.reference}`)
            .join(', ') || 'none'
        }.`,
      ),
    ),
  );
}

function setup_summary() {
  on_change('task', paint_answer);
  on_change('task', paint_summary, true);
  on_change('task', paint_contexts);
  on_change('task', paint_guide, true);
  on_change('task', () => paint_provenance(state.model.head.provenance, 'report'), true);
}
