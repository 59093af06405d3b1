// Another sweep beside this one (`fp4sim report DIR --against OTHER`): every configuration that both hold, its y here
// and there, and who came to the front or left it.

function matches_here() {
  const {model} = state;
  return named_rows('against', ['front'], ['point', 'there', 'mean', 'low', 'high', 'same'])
    .filter(({point}) => words_at(model.context, point) === state.context)
    .map((match) => ({...match, here: model.column(model.head.y).mean[match.point]}));
}

const against_verdict = (match) =>
  match.same ? 'same bits' : match.low > 0 ? 'higher there' : match.high < 0 ? 'lower there' : 'not told apart';

const against_rows = () => [
  'configuration config_hash here there difference low high verdict front_here front_there'.split(' '),
  ...matches_here().map((match) => [
    point_label(state.model, match.point),
    state.model.hash[match.point],
    ...[match.here, match.there, match.mean, match.low, match.high],
    ...[against_verdict(match), state.model.states[match.point], match.front],
  ]),
];

function against_option(matches, y, name, theme) {
  const placed = matches.filter((match) => Number.isFinite(match.here) && Number.isFinite(match.there));
  const values = placed.flatMap((match) => [match.here, match.there]);
  const scale = make_scale(default_scale(values), values);
  const range = plain_range(values, scale);
  const verdicts = {
    'same bits': theme.states.on,
    'higher there': theme.worse,
    'lower there': theme.better,
    'not told apart': theme.neutral,
  };
  const axis = (title) => ({
    ...scale_axis(scale, range, y, theme, 12),
    ...axis_name(title, undefined, {color: theme.ink}),
  });
  const option = {
    grid: {left: 76, right: 18, top: 12, bottom: 48},
    tooltip: tooltip(theme, 'item', ({data: {match}}) => [
      row_title(match.point, 3),
      h('p.small', `here ${value_text(y, match.here)}, there ${value_text(y, match.there)}`),
      h('p.small', `difference ${interval_text(y, match.mean, match.low, match.high)}: ${against_verdict(match)}`),
    ]),
    xAxis: {...axis(`${column_title(y)}, here`), nameGap: 28},
    yAxis: {...axis(`${column_title(y)}, ${name}`), nameGap: 56},
    series: [
      plain_line(
        [
          [range[0], range[0]],
          [range[1], range[1]],
        ],
        {color: theme.strong_line, width: 1.4, type: [6, 4]},
      ),
      {
        type: 'scatter',
        symbolSize: 9,
        data: placed.map((match) => ({
          value: [scale.to(match.here), scale.to(match.there)],
          match,
          itemStyle: {color: verdicts[against_verdict(match)], opacity: 0.85},
        })),
      },
    ],
  };
  return {option, verdicts, placed};
}

function paint_against() {
  const {model} = state;
  const other = model.head.against;
  by_id('against').hidden = !other?.name;
  if (!other?.name) return;
  // The same grid in two folders has one name: run again, or with --fixed.
  const name = other.name === model.head.name ? 'the other sweep' : other.name;
  const theme = current_theme();
  const y = model.column(model.head.y);
  const matches = matches_here();
  const {option, verdicts, placed} = against_option(matches, y, name, theme);
  by_id('against-title').textContent = `Against ${name}`;
  const on = (word) => word === 'on';
  const joined = matches.filter((match) => on(match.front) && !on(model.states[match.point]));
  const left = matches.filter((match) => !on(match.front) && on(model.states[match.point]));
  const both = matches.filter((match) => on(match.front) && on(model.states[match.point]));
  by_id('against-intro').textContent =
    `${matches.length} of ${plural(context_points().length, 'configuration')} of ${short_context(state.context)} are in both sweeps` +
    (other.only_there ? `; ${other.only_there} of all tasks are only in ${name}` : '') +
    `. Differences are ${name} minus this sweep, taken over the seeds that both have; above the dashed line it is higher there.`;
  fill(
    by_id('against-legend'),
    Object.entries(verdicts).map(([word, colour]) => {
      const count = placed.filter((match) => against_verdict(match) === word).length;
      return count ? h('span.key', swatch(colour), `${word} `, h('span.quiet', String(count))) : null;
    }),
  );
  const chart = chart_in(by_id('against-chart'), 400);
  chart.setOption(option);
  by_id('against-chart').setAttribute('aria-label', `${placed.length} configurations, ${y.label} here and in ${name}`);
  const names = (title, list) => [
    h('h3', `${title} (${list.length})`),
    h(
      'ul.names.small',
      list.slice(0, 12).map(({point}) => h('li', h('button.link', {onclick: () => pin(point)}, row_title(point, 3)))),
      list.length > 12 ? h('li', `and ${list.length - 12} more`) : null,
    ),
  ];
  fill(
    by_id('against-lists'),
    both.length + joined.length + left.length // none of either: no race has put any there
      ? [
          names('On the front in both', both),
          names(`On the front only in ${name}`, joined),
          names('On the front only here', left),
        ]
      : [],
  );
}

function setup_against() {
  on_change('task theme size', paint_against, true);
}
