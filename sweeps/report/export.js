// PNG, SVG and CSV of every chart, which says {title(), legend, names(), rows()}: its title, its rows and, where it has
// them, its legend and its named points.

function draw_figure(kind, figure) {
  const size = {width: figure.width, height: figure.height};
  const svg = kind === 'svg';
  const place = svg ? null : document.createElement('div');
  const chart = echarts.init(place, null, {...size, ...(svg ? {renderer: 'svg', ssr: true} : {devicePixelRatio: 2})});
  chart.setOption(figure.option);
  const done = svg
    ? {text: chart.renderToSVGString(), type: 'image/svg+xml'}
    : {text: bytes_of_base64(chart.getDataURL({type: 'png', pixelRatio: 2}).split(',')[1]), type: 'image/png'};
  chart.dispose();
  return done;
}

const csv_text = (rows) => rows.map((row) => row.map(csv_field).join(',') + '\n').join('');

function export_chart(kind, container, what) {
  const title = what.title();
  const file = `${state.model.head.name} ${title}`.replace(/[^\w.-]+/g, '_').slice(0, 80);
  const done =
    kind === 'csv'
      ? {text: csv_text(what.rows()), type: 'text/csv'}
      : draw_figure(kind, figure_of(live_charts.get(container), {title, legend: what.legend, names: what.names?.() ?? []}));
  download(`${file}.${kind}`, done.text, done.type);
}

// The three buttons below a chart.
function export_buttons(place, container, what) {
  const button = (kind) =>
    h(
      'button.link',
      {
        'data-kind': kind,
        'aria-label': `${what.title()} as ${kind.toUpperCase()}`,
        onclick: () => export_chart(kind, container, what),
      },
      kind.toUpperCase(),
    );
  fill(place, h('span.quiet', 'Save as'), ['png', 'svg', 'csv'].map(button));
}

// Rows of the points that a chart draws: what they are, and their columns.
function point_rows({shown, strip, front}) {
  const {model} = state;
  const columns = model.columns.filter(has_values);
  const head = ['number', 'pin', 'configuration', 'config_hash', 'context', 'status'];
  const rows = [
    [
      ...head,
      ...columns.flatMap((column) =>
        column.low ? [column.name, `${column.name}_low`, `${column.name}_high`] : [column.name],
      ),
    ],
  ];
  for (const i of [...shown, ...strip])
    rows.push([
      front.points.indexOf(i) + 1 || '',
      pin_letter(i),
      point_label(model, i),
      model.hash[i],
      words_at(model.context, i),
      model.states[i],
      ...columns.flatMap((column) => (column.low ? [column.mean[i], column.low[i], column.high[i]] : [column.mean[i]])),
    ]);
  return rows;
}

function setup_exports() {
  const here = (text) => () => `${text}, ${state.context}`;
  // By the ids of their containers.
  const charts = {
    scatter: {
      title: () => `${state.model.column(state.y).label} against ${state.model.column(state.x).label} of ${state.model.head.workload}, modelled; ${state.context}`,
      legend: by_id('legend'),
      names: () => named_points(state.model, scatter_view(), scatter.drawn.layout),
      rows: () => point_rows(scatter.drawn.layout),
    },
    'cost-chart': {
      title: here('cost of a step'),
      legend: by_id('cost-legend'),
      rows: () => [
        ['configuration', 'config_hash', 'term', 'seconds'],
        ...cost_rows().rows.flatMap((i) =>
          point_terms(state.model, i).map(({name, seconds}) => [row_title(i), state.model.hash[i], name, seconds]),
        ),
      ],
    },
    'effects-chart': {title: here('effects of the axes'), legend: by_id('effects-legend'), rows: effect_rows},
    'heat-chart': {title: here('two axes together'), legend: by_id('heat-legend'), rows: heat_rows},
    'against-chart': {
      title: here('against ' + (state.model.head.against?.name ?? '')),
      legend: by_id('against-legend'),
      rows: against_rows,
    },
  };
  for (const place of document.querySelectorAll('.export[data-chart]'))
    export_buttons(place, by_id(place.dataset.chart), charts[place.dataset.chart]);
}
