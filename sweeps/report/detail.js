// Everything about one pinned configuration: numbers, difference to the base, curves, costs, command, seeds, full text.

function fact_rows(point) {
  const {model} = state;
  return model.columns
    .filter((column) => mean_text(column, point) !== '–')
    .map((column) =>
      h(
        'tr',
        {title: column.doc || null},
        h('th', {scope: 'row'}, column.label),
        h('td', mean_text(column, point, 4)),
        h(
          'td.quiet',
          Number.isFinite(column.mean[point]) && Number.isFinite(column.low?.[point])
            ? `[${value_text(column, column.low[point])}, ${value_text(column, column.high[point])}]`
            : '',
        ),
      ),
    );
}

// In words, why the point has its status.
function verdict_text(point) {
  const {model} = state;
  const [x, y] = judged_columns();
  const n = model.seeds[point];
  const words = {
    on: `It beats every candidate of no higher ${x.label} in ${y.label}, on ${plural(n, 'seed')}, after correction for the number of comparisons.`,
    tied: `It costs as much as a step of the front or more, and the interval of its difference to that step lies inside delta: it brings nothing that matters.`,
    undecided: `Its ${plural(n, 'seed')} neither show that it beats the cheaper candidates nor that one of them beats it. More seeds would decide.`,
    screening: `No configuration of no higher ${x.label} has a lower mean ${y.label} on ${plural(n, 'seed')}. Not confirmed on fresh seeds.`,
    candidate: `Near the front: within three standard errors of it on ${plural(n, 'seed')}. Fresh seeds could still put it there.`,
    diverged: `${plural(model.diverged[point], 'run')} diverged and ${model.diverged[point] === 1 ? 'has' : 'have'} no loss; a configuration that can diverge counts as worse than all that never did.`,
    failed: 'Its runs failed; the message is in the store.',
  };
  if (model.states[point] !== 'off') return words[model.states[point]];
  const better = front_rows().points.filter(
    (i) => direction(x) * (x.mean[i] - x.mean[point]) <= 0 && direction(y) * (y.mean[i] - y.mean[point]) < 0,
  );
  const best = better.sort((i, j) => direction(y) * (y.mean[i] - y.mean[j]))[0];
  return best === undefined
    ? 'It is not on the front.'
    : `Off the front: at ${x.label} ${value_text(x, x.mean[best])} (here ${value_text(x, x.mean[point])}) the front has ` +
        `${y.label} ${value_text(y, y.mean[best])} (here ${value_text(y, y.mean[point])}).`;
}

function difference_table(point) {
  const changes = differences(state.model, point);
  if (!changes.length)
    return h(
      'p.quiet',
      state.model.baseline[point]
        ? 'A baseline recipe: the axes of the grid do not apply.'
        : 'Nothing: this is the base configuration.',
    );
  return h(
    'table.facts',
    changes.map(({axis, value, reference}) =>
      h(
        'tr',
        {title: axis.doc || null},
        h('th', {scope: 'row'}, axis.name),
        h('td', h('s.quiet', reference)),
        h('td', h('b', value)),
      ),
    ),
  );
}

function sensitivity_table(point) {
  const own = named_rows('sensitivity', ['weight'], ['point', 'low', 'high']).filter((row) => row.point === point);
  const rows = own.map(({weight, low, high}) => {
    // Factors from 1/4 to 4 on a logarithmic track of 100 %.
    const place = (factor) => 50 + 25 * Math.log2(Math.min(Math.max(factor, 0.25), 4));
    const bar = h('span.track-bar');
    bar.style.left = `${place(low)}%`;
    bar.style.width = `${Math.max(place(high) - place(low), 2)}%`;
    return h(
      'tr',
      h('th', {scope: 'row'}, weight),
      h('td.track-cell', h('span.track', bar)),
      h('td.quiet', `× ${significant(low, 2)} … ${significant(high, 2)}`),
    );
  });
  if (!rows.length) return null;
  return [
    h('h3', 'How safe is its place?'),
    h(
      'p.quiet.small',
      'Factors by which a cost may change with the point still undominated (track: ¼ to 4; the middle is the cost as modelled).',
    ),
    h('table.facts', rows),
  ];
}

function command_block(point) {
  const {model} = state;
  const template = model.command(point);
  if (!template) return null;
  const rows = point_runs(model, point);
  const seeds = rows.map((row) => model.get('runs', 'seed')[row]);
  const text = h('code.command', {id: 'command'});
  const set = (seed) => {
    text.textContent = template.replaceAll('{seed}', String(seed));
  };
  set(seeds[0] ?? 1);
  const copy = h('button.button', {id: 'copy-command', onclick: () => copy_text(text.textContent, copy)}, 'Copy');
  const choose =
    seeds.length > 1 && template.includes('{seed}')
      ? h(
          'label.choice',
          h('span', 'seed'),
          h(
            'select',
            {onchange: (event) => set(event.target.value)},
            [...new Set(seeds)].map((seed) => h('option', {value: seed}, String(seed))),
          ),
        )
      : null;
  return [
    h('h3', 'Run it again'),
    h('div.command-box', text, h('div.command-tools', choose, copy)),
    h(
      'p.quiet.small',
      'The digest it prints must equal the one of that seed below: same bits on every machine and for any number of threads.',
    ),
  ];
}

function seed_table(point) {
  const {model} = state;
  const rows = point_runs(model, point).sort((a, b) => model.get('runs', 'seed')[a] - model.get('runs', 'seed')[b]);
  if (!rows.length) return null;
  const qualities = model.columns.filter(
    (column) => column.kind === 'quality' && model.get('runs', column.name).some(Number.isFinite),
  );
  return [
    h('h3', plural(rows.length, 'run')),
    h(
      'div.scroll-x',
      {tabindex: 0, role: 'region', 'aria-label': 'Runs'},
      h(
        'table.runs',
        h(
          'thead',
          h(
            'tr',
            h('th', 'seed'),
            h('th', 'role'),
            qualities.map((column) => h('th.number', column.label)),
            h('th', 'digest'),
          ),
        ),
        h(
          'tbody',
          rows.slice(0, 60).map((row) => {
            const status = words_at(model.get('runs', 'status'), row);
            const digest = model.get('runs', 'digest');
            return h(
              'tr',
              h('td', String(model.get('runs', 'seed')[row])),
              h('td', words_at(model.get('runs', 'role'), row), status === 'finished' ? null : h('b', ' ' + status)),
              qualities.map((column) => h('td.number', value_text(column, model.get('runs', column.name)[row], 4))),
              h('td.mono', words_at(digest, row) || '–'),
            );
          }),
        ),
      ),
    ),
  ];
}

// The configuration as text; lines that the base configuration does not have are marked.
function configuration_block(point) {
  const {model} = state;
  const value = configuration(model, point);
  if (!value) return null;
  const text = JSON.stringify(value, null, 1);
  const base = context_points(words_at(model.context, point)).find(
    (i) => !model.baseline[i] && !differences(model, i).length,
  );
  const base_lines = new Set();
  const flat = (item, path, out) => {
    if (item !== null && typeof item === 'object' && !Array.isArray(item))
      for (const [key, child] of Object.entries(item)) flat(child, `${path}/${key}`, out);
    else out.push([path, JSON.stringify(item)]);
    return out;
  };
  if (base !== undefined && base !== point)
    for (const [path, leaf] of flat(configuration(model, base) ?? {}, '', [])) base_lines.add(`${path}=${leaf}`);
  const show = (item, indent, path) => {
    const pad = '  '.repeat(indent);
    return Object.entries(item).flatMap(([key, child]) => {
      const here = `${path}/${key}`;
      if (child !== null && typeof child === 'object' && !Array.isArray(child))
        return [h('span.code-line', `${pad}${key}:`), ...show(child, indent + 1, here)];
      const leaf = JSON.stringify(child);
      const changed = base_lines.size > 0 && !base_lines.has(`${here}=${leaf}`);
      return [h('span', {class: changed ? 'code-line changed' : 'code-line'}, `${pad}${key}: ${leaf}`)];
    });
  };
  const copy = h('button.plain', {onclick: () => copy_text(text, copy)}, 'Copy as JSON');
  return h(
    'details.full-config',
    h('summary', 'Full configuration'),
    h('p.quiet.small', base_lines.size ? 'Marked lines differ from the base configuration. ' : '', copy),
    h('pre', {tabindex: 0, role: 'region', 'aria-label': 'Full configuration'}, show(value, 0, '')),
  );
}

function paint_detail(body, point) {
  const {model} = state;
  const word = model.states[point];
  const name = words_at(model.name, point);
  const curve_chart = h('div.chart', {id: 'curve-chart'}),
    curve_legend = h('div.legend');
  const cost_chart = h('div.chart'),
    cost_legend = h('div.legend');
  const curve_tools = h('div.export');
  const has_terms = point_terms(model, point).length > 0;
  fill(
    body,
    h(
      'p.badge-line',
      h('span', {class: `badge ${word}`}, state_icon(word), state_words[word]),
      h('span.mono.quiet', {title: 'configuration hash'}, model.hash[point]),
    ),
    name ? h('h3.detail-name', name) : null,
    h('p.small', verdict_text(point)),
    h('table.facts', fact_rows(point)),
    h('h3', 'Difference to the base'),
    difference_table(point),
    h('h3', 'Loss curves'),
    curve_legend,
    curve_chart,
    curve_tools,
    has_terms ? [h('h3', 'Where the time of a step goes'), cost_legend, cost_chart, term_table(point)] : null,
    command_block(point),
    sensitivity_table(point),
    seed_table(point),
    configuration_block(point),
  );
  if (paint_curves(curve_chart, curve_legend, point))
    export_buttons(curve_tools, curve_chart, {
      title: () => `loss curves, ${words_at(model.context, point)}`,
      legend: curve_legend,
      rows: () => curve_rows(point),
    });
  else
    curve_chart.replaceWith(
      h(
        'p.quiet.small',
        'Not stored on this page: curves are kept for the front, the baselines and the 300 configurations nearest to the front. The command below makes it again.',
      ),
    );
  if (has_terms) {
    const others = [
      ...state.pins.filter((i) => i !== point),
      ...context_points().filter((i) => model.baseline[i] && !state.pins.includes(i)),
    ].filter((i) => point_terms(model, i).length);
    paint_cost_bars(
      cost_chart,
      cost_legend,
      [point, ...others].slice(0, 7).map((i) => ({point: i, name: row_title(i, 1)})),
      {title_width: 120},
    );
  }
}
