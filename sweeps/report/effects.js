// Axis effects as a forest plot: for every value of an axis the mean paired difference to the axis's reference, its
// interval, and the range over the settings of the other axes. Axes are ordered by the size of their largest effect.

let all_effects = false;

function effect_groups(task) {
  const {model} = state;
  const groups = new Map();
  const words = ['task', 'axis', 'value', 'reference', 'verdict'];
  for (const row of named_rows('effects', words, ['mean', 'low', 'high', 'q10', 'q90', 'share'])) {
    const {axis: name, reference} = row;
    if (row.task !== task) continue;
    if (!groups.has(name))
      groups.set(name, {name, label: model.axis(name)?.label ?? name, reference, rows: [], without: []});
    if (row.value === groups.get(name).reference) continue;
    if (Number.isFinite(row.mean)) groups.get(name).rows.push(row);
    else groups.get(name).without.push(`${row.value}: ${effect_word(row)}`);
  }
  const list = [...groups.values()].filter((group) => group.rows.length || group.without.length);
  for (const group of list) {
    group.size = Math.max(0, ...group.rows.map((row) => row.mean)) - Math.min(0, ...group.rows.map((row) => row.mean));
    group.rows.sort((a, b) => a.mean - b.mean);
  }
  return list.some((group) => group.rows.length) ? list.sort((a, b) => b.size - a.size) : [];
}

// Signed logarithm where one effect is far larger than the usual one, so that the small ones are told apart.
function effect_scale(values) {
  const sizes = values
    .filter(Number.isFinite)
    .map(Math.abs)
    .filter((v) => v > 0)
    .sort((a, b) => a - b);
  return make_scale(sizes.length > 4 && sizes.at(-1) > 12 * sizes[sizes.length >> 1] ? 'log' : 'linear', values);
}

// The rows of the chart's CSV.
const effect_rows = () => [
  ['axis', 'value', 'reference', 'mean', 'low', 'high', 'q10', 'q90', 'share', 'verdict'],
  ...effect_groups(current_task()).flatMap((group) =>
    group.rows.map((row) => [
      ...[group.name, row.value, group.reference, row.mean, row.low, row.high, row.q10, row.q90, row.share],
      effect_word(row),
    ]),
  ),
];

// Without words from the engine, only whether the interval leaves out zero.
const effect_word = (row) => row.verdict || (row.high < 0 ? 'lower' : row.low > 0 ? 'higher' : 'undecided');

// long: one drawing, whose rows, intervals and axis share their measures
function paint_effects() {
  const {model} = state;
  const theme = current_theme();
  const y = model.column(model.head.y);
  const groups = effect_groups(current_task());
  by_id('effects').hidden = !groups.length;
  if (!groups.length) return;
  const rows_wanted = 26;
  let shown = groups;
  if (!all_effects) {
    let sum = 0;
    shown = groups.filter((group, k) => (sum += group.rows.length + 1) <= rows_wanted || k === 0);
  }
  const more = by_id('effects-more');
  more.hidden = shown.length === groups.length && !all_effects;
  more.textContent = all_effects ? 'Show the largest only' : `Show all ${groups.length} axes`;
  const [first, second] = groups;
  by_id('effects-intro').textContent =
    `Change of ${y.label}${y.unit && y.unit !== 'share' ? ` (${y.unit})` : ''} against the reference value of each axis, averaged over all settings of the other axes and paired by seed. ` +
    `${first.label} moves it the most, by ${even_text(y, first.size, first.size)}${second ? `; next is ${second.label}, by ${even_text(y, second.size, first.size)}` : ''}.`;
  const better = y.lower_is_better ? 'lower' : 'higher';
  fill(
    by_id('effects-legend'),
    h('span.key', h('span.dot-key', {'aria-hidden': 'true'}), 'mean'),
    h('span.key', swatch(theme.ink, true), 'simultaneous 95 % intervals of an axis'),
    h('span.key', swatch(theme.line, true), 'middle 80 % of the other settings'),
    h(
      'span.key',
      h('span.quiet', 'colour:'),
      swatch(theme.better),
      'better',
      swatch(theme.worse),
      'worse',
      swatch(theme.neutral),
      'equal or undecided',
    ),
  );
  const lines = [];
  for (const group of shown) {
    const without = group.without.length ? `, without a seed: ${group.without.join('; ')}` : '';
    lines.push({header: true, group, text: group.label + without});
    for (const row of group.rows) lines.push({...row, group, text: row.value || 'not applicable'});
  }
  const narrow = is_narrow();
  const good = (row) => (better === 'lower' ? ['better', 'lower'] : ['better', 'higher']).includes(effect_word(row));
  const bad = (row) => (better === 'lower' ? ['worse', 'higher'] : ['worse', 'lower']).includes(effect_word(row));
  const colour = (row) => (good(row) ? theme.better : bad(row) ? theme.worse : theme.neutral);
  const drawn = lines.filter((line) => !line.header);
  const ends = drawn.flatMap((line) => [line.mean, line.low, line.high]);
  const scale = effect_scale(ends);
  const spans = [...ends, ...drawn.flatMap((line) => [line.q10, line.q90]), 0];
  const segments = (low, high) =>
    lines.flatMap((line, k) =>
      line.header || !Number.isFinite(line[low]) ? [] : stroke([scale.to(line[low]), k], [scale.to(line[high]), k]),
    );
  const width = narrow ? 118 : 210;
  const chart = chart_in(by_id('effects-chart'), lines.length * 23 + 52);
  chart.setOption({
    grid: {left: width + 8, right: narrow ? 12 : 170, top: 6, bottom: 44},
    tooltip: tooltip(theme, 'item', ({data: {line}}) => [
      `${line.group.name} = ${line.text}`,
      h('p.quiet.small', `against ${line.group.reference || 'the reference'}`),
      tip_table([
        ['mean change', interval_text(y, line.mean, line.low, line.high)],
        Number.isFinite(line.q10) && [
          'middle 80 % of settings',
          `${value_text(y, line.q10)} … ${value_text(y, line.q90)}`,
        ],
        Number.isFinite(line.share) && ['settings with this sign', `${significant(100 * line.share, 3)} %`],
        ['verdict', effect_word(line)],
      ]),
    ]),
    xAxis: {
      ...scale_axis(scale, plain_range(spans, scale), y, theme, 12),
      ...axis_name(
        `change of ${column_title(y)}: left is ${y.lower_is_better ? 'better' : 'worse'}${scale.kind === 'log' ? ' (logarithmic on both sides of 0)' : ''}`,
        28,
        {color: theme.quiet},
      ),
    },
    // The right axis repeats mean and verdict as text, so that nothing depends on reading positions or colours.
    yAxis: [
      row_axis(
        lines.map((line, k) => String(k)),
        {
          width,
          formatter: (k) => `{${lines[k].header ? 'head' : 'row'}|${lines[k].text.replace(/[{}|]/g, ' ')}}`,
          rich: {head: {color: theme.ink, fontWeight: 700, fontSize: 12}, row: {color: theme.quiet, fontSize: 12}},
        },
      ),
      row_axis(
        lines.map((line, k) => String(k)),
        {
          show: !narrow,
          color: theme.quiet,
          fontSize: 12,
          formatter: (k) =>
            lines[k].header ? '' : `${even_text(y, lines[k].mean, groups[0].size)}  ${effect_word(lines[k])}`,
        },
        {position: 'right'},
      ),
    ],
    series: [
      plain_line(segments('q10', 'q90'), {color: theme.line, width: 9, cap: 'butt'}, {z: 2}),
      plain_line(segments('low', 'high'), {color: theme.ink, width: 2}, {z: 3}),
      {
        type: 'scatter',
        z: 4,
        symbolSize: 10,
        data: lines
          .map((line, k) => ({line, k}))
          .filter(({line}) => !line.header)
          .map(({line, k}) => ({
            value: [scale.to(line.mean), k],
            line,
            itemStyle:
              good(line) || bad(line)
                ? {color: colour(line), borderColor: theme.card, borderWidth: 1}
                : {color: theme.card, borderColor: colour(line), borderWidth: 2},
          })),
        markLine: marks_at([{xAxis: 0}], {color: theme.strong_line, type: 'solid', width: 1.2}),
      },
    ],
  });
}

function setup_effects() {
  on_change('task theme size', paint_effects, true);
  by_id('effects-more').addEventListener('click', () => {
    all_effects = !all_effects;
    paint_effects();
  });
}
