// The page of a service: what `fp4sim serve --json` says, as charts.

const mean_of = (row, figure) => row[figure].mean;
const ends_of = (row, figure) => row[figure].interval ?? [];
const percent = (share) => value_text({unit: 'share'}, share);
const dollars = (value) => `$${significant(value)} a million requests`;

// Accuracies asked for, each once, and latencies.
const targets_of = (data, key, text) =>
  [...new Set((data.targets ?? []).map((target) => target[key]))].map((value) => ({value, name: text(value)}));

function cost_of_policies(data, theme) {
  const members = data.members.map((member) => ({
    x: member.cost_per_million,
    y: member.accuracy,
    name: member.member,
    colour: theme.neutral,
    size: 6,
    lines: [dollars(member.cost_per_million) + ' in full batches', percent(member.accuracy) + ' right'],
  }));
  const policies = data.policies.map((row, k) => ({
    x: mean_of(row, 'cost_per_million'),
    y: mean_of(row, 'accuracy'),
    x_ends: ends_of(row, 'cost_per_million'),
    y_ends: ends_of(row, 'accuracy'),
    name: row.policy,
    label: row.policy,
    colour: theme.categories[k % theme.categories.length],
    symbol: 'diamond',
    size: 13,
    lines: [row.doc, dollars(mean_of(row, 'cost_per_million')), percent(mean_of(row, 'accuracy')) + ' right'],
  }));
  // Names of neighbours stand on different sides.
  [...policies].sort((a, b) => a.x - b.x).forEach((point, k) => (point.position = k % 2 ? 'top' : 'bottom'));
  return {
    id: 'cost',
    title: 'Cost against accuracy',
    text: 'Diamonds: policies, with what they pay for instances that wait; their intervals are over the traces. Dots: members in full batches, never waiting, on the half of the validation set that the service learns from. Dashed: accuracies that requests ask for. Left and up is better.',
    height: 420,
    keys: [],
    option: plane_option(
      {
        points: [...members, ...policies],
        marks: targets_of(data, 'accuracy', percent).map(({value, name}) => ({y: value, name})),
        x_name: 'US dollars for a million requests',
        y_name: 'right answers',
      },
      theme,
    ),
    rows: [
      ['kind', 'name', 'cost_per_million', 'right'],
      ...data.members.map((m) => ['member', m.member, m.cost_per_million, m.accuracy]),
      ...data.policies.map((p) => ['policy', p.policy, mean_of(p, 'cost_per_million'), mean_of(p, 'accuracy')]),
    ],
  };
}

// A row for each policy: three figures, the last with its interval.
function figures_of_policies(data, theme, {figures, names, at, unit, x_name, ...words}) {
  const rows = data.policies.map((row) => ({
    name: row.policy,
    values: figures.map((figure) => mean_of(row, figure)),
    ends: row[figures.at(-1)].interval,
  }));
  const marks = [
    {name: names[0], symbol: 'circle', icon: 'off', colour: theme.categories[0]},
    {name: names[1], symbol: 'rect', icon: 'screening', colour: theme.categories[4]},
    {name: names[2], symbol: 'diamond', icon: 'on', colour: theme.categories[1]},
  ];
  return {
    ...words,
    height: 76 + 34 * rows.length,
    keys: marks,
    option: rows_option({rows, marks, at, unit, x_name}, theme),
    rows: [['policy', ...figures], ...rows.map(({name, values}) => [name, ...values])],
  };
}

const latency_of_policies = (data, theme) =>
  figures_of_policies(data, theme, {
    id: 'latency',
    title: 'Latency by percentile',
    text: 'From arrival to answer, means over the traces; thick: the interval of p99. Dashed: latencies that requests ask for.',
    figures: ['p50_ms', 'p95_ms', 'p99_ms'],
    names: ['half are faster (p50)', '95 % are (p95)', '99 % are (p99)'],
    at: targets_of(data, 'latency_ms', (ms) => `${significant(ms)} ms`).map(({value, name}) => ({x: value, name})),
    unit: 'ms',
    x_name: 'ms',
  });

const targets_met = (data, theme) =>
  figures_of_policies(data, theme, {
    id: 'met',
    title: 'Requests that met their targets',
    text: `An accuracy is met where a window of successive requests of its kind reached it${
      data.window ? ` (${data.window} requests, less ${percent(data.tolerance)})` : ''
    }. Thick: the interval of both.`,
    figures: ['met_latency', 'met_accuracy', 'met_both'],
    names: ['in time', 'accurate', 'both'],
    unit: 'share',
    x_name: 'share of the requests',
  });

function cost_of_votes(data, theme) {
  const groups = [...new Set(data.votes.map((row) => row.group))];
  const shapes = ['circle', 'rect', 'triangle', 'diamond'];
  const paths = groups.map((group, k) =>
    data.votes
      .filter((row) => row.group === group)
      .map((row) => ({
        x: row.cost_per_million,
        y: row.weighted,
        name: `${group}, ${plural(row.members, 'member')}`,
        colour: theme.categories[k % theme.categories.length],
        symbol: shapes[Math.floor(k / theme.categories.length + k) % shapes.length],
        lines: [dollars(row.cost_per_million), `${percent(row.weighted)} right, by majority ${percent(row.majority)}`],
      })),
  );
  const keys = ['group', 'members', 'mean', 'majority', 'weighted', 'cost_per_million'];
  return {
    id: 'cost',
    title: 'Cost against accuracy',
    text: 'What the first 1, 2, .. members of each group answer by class-weighted vote, and what they cost in full batches. Left and up is better.',
    height: 440,
    keys: groups.map((name, k) => ({name, colour: theme.categories[k % theme.categories.length]})),
    option: plane_option(
      {points: paths.flat(), paths, x_name: 'US dollars for a million requests', y_name: 'right answers'},
      theme,
    ),
    rows: [keys, ...data.votes.map((row) => keys.map((key) => row[key]))],
  };
}

function service_sections(data) {
  const charts = data.votes ? [cost_of_votes] : [cost_of_policies, latency_of_policies, targets_met];
  return charts.map((make) => {
    const parts = {legend: h('div.legend'), chart: h('div.chart', {role: 'img'})};
    parts.tools = h('div.export');
    const first = make(data, current_theme());
    parts.chart.setAttribute('aria-label', first.title);
    parts.node = h(
      'section',
      {id: first.id},
      h('h2', first.title),
      h('p.quiet', first.text),
      h('div.card.chart-card', parts.legend, parts.chart, parts.tools),
    );
    parts.paint = () => {
      const theme = current_theme();
      const {title, height, keys, option, rows} = make(data, theme);
      fill(
        parts.legend,
        keys.map((key) =>
          h('span.key', key.icon ? state_icon(key.icon, key.colour) : swatch(key.colour, true), key.name),
        ),
      );
      chart_in(parts.chart, height).setOption(option);
      export_buttons(parts.tools, parts.chart, {
        title: () => title,
        legend: parts.legend,
        rows: () => rows,
      });
    };
    return parts;
  });
}

async function start_service() {
  let sections = [];
  const paint_all = () => sections.forEach(({paint}) => paint());
  await open_page(paint_all, (bytes) => {
    const data = JSON.parse(new TextDecoder().decode(bytes));
    state.model = {head: {name: data.service}}; // by which files are named
    by_id('subtitle').textContent = data.votes
      ? 'What members answer together; nothing waits, nothing is lost.'
      : `${plural(data.members.length, 'member')} on ${data.hardware}, ${plural(data.seeds, 'trace')} from seed ${data.first_seed} on.`;
    sections = service_sections(data);
    fill(
      by_id('main'),
      sections.map(({node}) => node),
    );
    by_id('main').hidden = false;
    paint_all();
    paint_provenance(data.provenance, 'serve');
  });
}
