// Stacked bars of where the time of a step goes: the section below the chart, and the same bars in a pin's details.

// A part of the cost has one colour on every chart and page: that of its place in the sweep's list of parts. Parts that
// the list lacks follow in the order of the table.
function term_order() {
  const {head, tables} = state.model;
  const listed = (head.cost_terms ?? []).map(({name}) => name);
  return [...listed, ...[...tables.terms.columns.keys()].filter((name) => !listed.includes(name))];
}

// The terms of all given points in the page's order, with what explains their names; those without a colour of their
// own are one group.
function term_groups(points, terms_of) {
  const used = new Set(points.flatMap((i) => terms_of(i).map(({name}) => name)));
  const theme = current_theme();
  const docs = new Map((state.model.head.cost_terms ?? []).map(({name, doc}) => [name, doc]));
  const own = term_order().map((name, k) => ({name, doc: docs.get(name), colour: theme.parts[k], names: [name]}));
  const groups = own.filter(({name, colour}) => colour && used.has(name));
  const rest = own.filter(({name, colour}) => !colour && used.has(name)).map(({name}) => name);
  if (rest.length) groups.push({name: 'all else', doc: rest.join(', '), colour: theme.neutral, names: rest});
  return groups;
}

// The step with free quantisation, which `overhead` is measured against; the same for every configuration.
function ideal_seconds(points) {
  const step = state.model.column('step_time_s'),
    overhead = state.model.column('overhead');
  if (!step || !overhead) return null;
  const known = points.find((i) => step.mean[i] > 0 && overhead.mean[i] > -1);
  return known === undefined ? null : step.mean[known] / (1 + overhead.mean[known]);
}

const total_seconds = (terms) => terms.reduce((sum, term) => sum + term.seconds, 0);

// Stacked bars, one per row {point, name}; `legend` gets the names of the terms. `only`: a set of terms to keep.
// long: one drawing, whose bars, names and axis share their measures
function paint_cost_bars(container, legend, all_rows, {title_width, only = null}) {
  const {model} = state;
  const theme = current_theme();
  const overhead = model.column('overhead');
  const terms_of = (i) => point_terms(model, i).filter((term) => !only || only.has(term.name));
  const total = (i) => total_seconds(terms_of(i));
  // A baseline several times longer than everything else would squeeze what is to be compared: it is named instead.
  const usual = Math.max(...all_rows.filter(({point}) => !model.baseline[point]).map(({point}) => total(point)), 0);
  const fits = ({point}) => total(point) > 0 && (!model.baseline[point] || usual === 0 || total(point) < 2.5 * usual);
  const rows = all_rows.filter(fits);
  const left_out = all_rows.filter((row) => !fits(row) && total(row.point) > 0);
  const points = rows.map((row) => row.point);
  const groups = term_groups(points, terms_of);
  const narrow = container.clientWidth < 560;
  const ideal = only ? null : ideal_seconds(points);
  const longest = Math.max(...points.map(total), 0);
  const [factor, prefix] = si_prefixes.find(([size]) => longest >= size) ?? [1, ''];
  const sum_of = (i, names) => total_seconds(terms_of(i).filter((term) => names.includes(term.name)));
  fill(
    legend,
    groups.map((group) => h('span.key', swatch(group.colour), group.name)),
    groups.filter(({doc}) => doc).map(({name, doc}) => h('span.key.quiet', `${name}: ${doc}`)),
    ideal
      ? h(
          'span.key',
          swatch(theme.ink, true),
          `ideal step: ${si_text(ideal, 's')} (every quantisable GEMM in FP4, quantisation free)`,
        )
      : null,
    left_out.length
      ? h(
          'span.key.quiet',
          `not drawn, far longer: ${left_out.map(({point, name}) => `${name} ${si_text(total(point), 's')}${overhead ? ` (+${value_text(overhead, overhead.mean[point])})` : ''}`).join(', ')}`,
        )
      : null,
  );
  const end_label = (i) =>
    !only && Number.isFinite(overhead?.mean[i]) ? `+${value_text(overhead, overhead.mean[i])}` : si_text(total(i), 's');
  const series = groups.map((group, k) => ({
    type: 'bar',
    stack: 'step',
    name: group.name,
    barMaxWidth: 20,
    barMinHeight: 0,
    itemStyle: {color: group.colour, borderColor: theme.card, borderWidth: 0.5},
    data: points.map((i) => sum_of(i, group.names) / factor),
    emphasis: {focus: 'none'},
    markLine:
      k === 0 && ideal ? marks_at([{xAxis: ideal / factor}], {color: theme.ink, type: 'solid', width: 1.6}) : undefined,
  }));
  // An invisible last bar carries the label at the end of each stack.
  series.push({
    type: 'bar',
    stack: 'step',
    silent: true,
    data: points.map(() => 0),
    tooltip: {show: false},
    label: {
      show: true,
      position: 'right',
      color: theme.ink,
      fontSize: 12,
      formatter: ({dataIndex}) => end_label(points[dataIndex]),
    },
  });
  const row_height = narrow ? 46 : 30;
  const chart = chart_in(container, rows.length * row_height + 56);
  const width = narrow ? 0 : title_width;
  const inside = {color: theme.ink, fontSize: 11, inside: true, verticalAlign: 'bottom', padding: [0, 0, 13, -4]};
  chart.setOption({
    grid: {left: narrow ? 8 : width + 12, right: 76, top: narrow ? 14 : 8, bottom: 44},
    tooltip: {
      ...tooltip(theme, 'axis', (items) => {
        const i = points[items[0].dataIndex];
        const share = (seconds) => `${significant((100 * seconds) / total(i), 2)} %`;
        const terms = terms_of(i).sort((a, b) => b.seconds - a.seconds);
        const table = tip_table([
          ...terms.map(({name, seconds}) => [name, si_text(seconds, 's'), share(seconds)]),
          [only ? 'together' : 'step', si_text(total(i), 's'), end_label(i)],
        ]);
        table.lastChild.className = 'sum';
        return [rows[items[0].dataIndex].name, table];
      }),
      axisPointer: {type: 'shadow'},
    },
    xAxis: {
      type: 'value',
      ...axis_name(`${only ? 'quantisation work in' : 'time of'} one training step (${prefix}s)`, 28, {
        color: theme.quiet,
      }),
      axisLabel: {color: theme.quiet},
      splitLine: {lineStyle: {color: theme.line}},
    },
    yAxis: row_axis(
      rows.map((row) => row.name),
      narrow ? label_on(theme, {...inside, width: container.clientWidth - 24}) : {color: theme.ink, fontSize: 12, width},
      {axisLine: {lineStyle: {color: theme.strong_line}}, z: 10},
    ),
    series,
  });
}

function term_table(point) {
  const {model} = state;
  const terms = point_terms(model, point).sort((a, b) => b.seconds - a.seconds);
  const total = total_seconds(terms);
  return h(
    'details',
    h('summary', 'The same in numbers'),
    h(
      'table.facts',
      terms.map((term) =>
        h(
          'tr',
          h('th', {scope: 'row'}, term.name),
          h('td', si_text(term.seconds, 's')),
          h('td.quiet', `${significant((100 * term.seconds) / total, 2)} %`),
        ),
      ),
    ),
  );
}

let cost_mode = 'step';

// Terms that a step without any quantisation (the baseline with the fewest terms) does not have; null without such a
// baseline.
function extra_terms(points) {
  const {model} = state;
  const plain = points
    .filter((i) => model.baseline[i] && point_terms(model, i).length)
    .sort((i, j) => point_terms(model, i).length - point_terms(model, j).length)[0];
  if (plain === undefined) return null;
  const known = new Set(point_terms(model, plain).map((term) => term.name));
  const extra = new Set([...model.tables.terms.columns.keys()].filter((name) => !known.has(name)));
  return extra.size ? extra : null;
}

// The points of the cost section: front (or the best candidates, where it holds baselines only), pins and baselines.
function cost_rows() {
  const {model} = state;
  const x = model.column(model.head.x);
  const with_terms = (i) => point_terms(model, i).length > 0;
  const {points, from} = best_rows();
  const front = points.filter(with_terms);
  const limit = 24;
  const baselines = context_points().filter((i) => model.baseline[i] && with_terms(i) && !front.includes(i));
  const pins = state.pins.filter(
    (i) =>
      with_terms(i) && !front.includes(i) && !baselines.includes(i) && words_at(model.context, i) === state.context,
  );
  const step = Math.max(1, Math.ceil(front.length / limit));
  const shown = front.filter((i, k) => k % step === 0 || k === front.length - 1 || state.pins.includes(i));
  const rows = [...shown, ...pins, ...baselines].sort((i, j) => direction(x) * (x.mean[i] - x.mean[j]));
  return {rows, shown, front, pins, from, step};
}

// The cost section below the chart: stacked bars.
function paint_costs() {
  const {model} = state;
  const section = by_id('costs');
  const {rows, shown, front, pins, from, step} = cost_rows();
  const plain = extra_terms(context_points());
  const mode = plain && cost_mode === 'extra' ? plain : null;
  section.hidden = !rows.length;
  if (!rows.length) return;
  const title = (i) => row_title(i, 2);
  const modes = [
    ['step', 'Whole step'],
    ['extra', 'Quantisation work only'],
  ];
  const choose = (value) => {
    cost_mode = value;
    paint_costs();
  };
  fill(
    by_id('cost-controls'),
    plain && h('div.segments', {role: 'group', 'aria-label': 'What the bars show'}, segments(modes, cost_mode, choose)),
  );
  const what = from === 'front' ? 'front' : 'best candidates';
  by_id('costs-title').textContent = `What the ${what} cost${from === 'front' ? 's' : ''}, and why`;
  by_id('costs-intro').textContent =
    `Modelled time of one training step${model.head.workload ? ` of ${model.head.workload}` : ''}, cheapest first: the ` +
    `${what}${step > 1 ? ` (${shown.length} of ${front.length})` : ''}, the baselines${pins.length ? ', your pins' : ''}. ${mode ? 'Shown is only the work that a step without quantisation does not have.' : 'The figure at the end is the overhead over the ideal step.'}`;
  paint_cost_bars(
    by_id('cost-chart'),
    by_id('cost-legend'),
    rows.map((point) => ({point, name: title(point)})),
    {title_width: Math.min(330, window.innerWidth * 0.3), only: mode},
  );
}
