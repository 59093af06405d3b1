// Heat map of two axes over the current selection: mean or best y, number of configurations, or share that diverged.
// Cells are square symbols of a scatter series, sized to the grid.

const heat = {a: '', b: '', value: 'best'};

const heat_values = [
  ['best', 'best mean'],
  ['mean', 'average of the means'],
  ['count', 'number of configurations'],
  ['diverged', 'share that diverged'],
];

function default_heat_axes() {
  const axes = varied_axes();
  const by_effect = effect_groups(current_task())
    .map((group) => state.model.axis(group.name))
    .filter((axis) => axes.includes(axis));
  const order = [...by_effect, ...axes.filter((axis) => !by_effect.includes(axis))];
  if (!order.some((axis) => axis.name === heat.a)) heat.a = order[0]?.name ?? '';
  if (!order.some((axis) => axis.name === heat.b) || heat.b === heat.a)
    heat.b = order.find((axis) => axis.name !== heat.a)?.name ?? '';
  return axes;
}

function heat_cells(a, b, y) {
  const {model} = state;
  const cells = new Map();
  for (const i of current_selection().visible) {
    if (model.baseline[i]) continue;
    const key = `${a.codes[i]} ${b.codes[i]}`;
    if (!cells.has(key)) cells.set(key, {a: a.codes[i], b: b.codes[i], count: 0, known: 0, sum: 0, best: NaN, bad: 0});
    const cell = cells.get(key);
    ++cell.count;
    if (model.states[i] === 'diverged') ++cell.bad;
    else if (Number.isFinite(y.mean[i])) {
      ++cell.known;
      cell.sum += y.mean[i];
      if (!(direction(y) * cell.best <= direction(y) * y.mean[i])) cell.best = y.mean[i];
    }
  }
  for (const cell of cells.values()) {
    cell.average = cell.sum / cell.known; // NaN where nothing is known
    cell.value = {best: cell.best, mean: cell.average, count: cell.count, diverged: cell.bad / cell.count}[heat.value];
  }
  return [...cells.values()];
}

// The axis values and figures of every cell, for the chart's CSV.
function heat_rows() {
  const {model} = state;
  const [a, b, y] = [model.axis(heat.a), model.axis(heat.b), model.column(state.y)];
  const head = [a.name, b.name, 'configurations', `best ${y.name}`, `average ${y.name}`, 'diverged'];
  const row = (cell) => [a.values[cell.a], b.values[cell.b], cell.count, cell.best, cell.average, cell.bad];
  return [head, ...heat_cells(a, b, y).map(row)];
}

// long: one drawing, whose cells, names and legend share their measures
function paint_heat() {
  const {model} = state;
  const axes = default_heat_axes();
  by_id('heat').hidden = axes.length < 2;
  if (axes.length < 2) return;
  const theme = current_theme();
  const a = model.axis(heat.a),
    b = model.axis(heat.b),
    y = model.column(state.y);
  const options = axes.map((axis) => ({value: axis.name, text: axis.name}));
  const choose = (key) => (value) => {
    if (key !== 'value' && value === heat[key === 'a' ? 'b' : 'a']) heat[key === 'a' ? 'b' : 'a'] = heat[key];
    heat[key] = value;
    paint_heat();
  };
  fill(
    by_id('heat-controls'),
    select_box('heat-a', 'columns', options, heat.a, choose('a')),
    select_box('heat-b', 'rows', options, heat.b, choose('b')),
    select_box(
      'heat-value',
      'show',
      heat_values.map(([value, text]) => ({
        value,
        text: value === 'best' || value === 'mean' ? `${text}: ${y.label}` : text,
      })),
      heat.value,
      choose('value'),
    ),
  );
  const cells = heat_cells(a, b, y);
  const present = (axis, key) => axis.order.filter((code) => cells.some((cell) => cell[key] === code));
  const columns = present(a, 'a'),
    rows = present(b, 'b');
  by_id('heat-intro').textContent =
    `Every cell sums up the configurations of the current selection with these two values${current_selection().visible.length < context_points().length ? ' (filters apply)' : ''}; ` +
    'an effect that an average over one axis hides shows as a pattern here.';
  const container = by_id('heat-chart');
  const narrow = is_narrow();
  const left = narrow ? 96 : 160,
    right = 16,
    top = 10,
    bottom = 52;
  const row_height = 40;
  const chart = chart_in(container, rows.length * row_height + top + bottom);
  const known = cells.map((cell) => cell.value).filter((v) => Number.isFinite(v));
  const low = Math.min(...known),
    high = Math.max(...known);
  // Colours follow a logarithm where most cells would otherwise look the same.
  const scale = make_scale(default_scale(known), known);
  const share = (v) => (high > low ? (scale.to(v) - scale.to(low)) / (scale.to(high) - scale.to(low)) : 0.5);
  const text = (v) =>
    heat.value === 'count'
      ? String(v)
      : heat.value === 'diverged'
        ? `${significant(100 * v, 2)} %`
        : value_text(y, v, 3);
  const width = (container.clientWidth - left - right) / columns.length;
  const size = [Math.max(width - 3, 4), row_height - 3];
  chart.setOption({
    grid: {left, right, top, bottom},
    tooltip: tooltip(theme, 'item', ({data: {cell}}) => [
      `${a.label} = ${a.values[cell.a] || 'not applicable'}, ${b.label} = ${b.values[cell.b] || 'not applicable'}`,
      tip_table([
        ['configurations', String(cell.count)],
        [`best ${y.label}`, value_text(y, cell.best)],
        [`average ${y.label}`, value_text(y, cell.average)],
        ['diverged', String(cell.bad)],
      ]),
    ]),
    xAxis: {
      type: 'category',
      data: columns.map((code) => a.values[code] || 'not applicable'),
      ...axis_name(a.name, 30, {color: theme.ink}),
      axisTick: {show: false},
      axisLine: {show: false},
      axisLabel: {
        color: theme.quiet,
        interval: 0,
        width: Math.max(width - 4, 20),
        overflow: 'truncate',
        hideOverlap: true,
      },
    },
    yAxis: row_axis(
      rows.map((code) => b.values[code] || 'not applicable'),
      {color: theme.quiet, width: left - 14},
    ),
    series: [
      {
        type: 'scatter',
        symbol: 'rect',
        symbolSize: size,
        emphasis: {scale: false},
        data: cells.map((cell) => {
          const fill = Number.isFinite(cell.value) ? sequence_colour(share(cell.value), state.dark) : null;
          return {
            value: [columns.indexOf(cell.a), rows.indexOf(cell.b)],
            cell,
            itemStyle: {color: fill ?? theme.empty, opacity: 1},
            label: {
              show: width > 34,
              formatter: Number.isFinite(cell.value) ? text(cell.value) : 'diverged',
              color: fill ? ink_on(fill) : theme.quiet,
              fontSize: width > 60 ? 12 : 10,
            },
          };
        }),
      },
    ],
  });
  const bar = h('span.ramp', {'aria-hidden': 'true'});
  bar.style.background = `linear-gradient(90deg, ${Array.from({length: 10}, (_, k) => sequence_colour(k / 9, state.dark)).join(',')})`;
  fill(
    by_id('heat-legend'),
    known.length
      ? h(
          'span.key',
          heat.value === 'best' || heat.value === 'mean'
            ? h('span.quiet', y.lower_is_better ? 'better' : 'worse')
            : null,
          text(low),
          bar,
          text(high),
        )
      : null,
    h('span.key.quiet', `rows: ${b.name}${scale.kind === 'log' ? '; colours follow a logarithm' : ''}`),
  );
}

function setup_heat() {
  on_change('task view filter theme size', paint_heat, true);
}
