// Charts other than the scatter share these: making one, keeping its size, stacked cost bars, loss curves.

const live_charts = new Map();

// The chart of a container, made at first use. Containers that leave the document take their chart with them.
function chart_in(container, height) {
  for (const [node, chart] of live_charts) {
    if (node.isConnected) continue;
    chart.dispose();
    live_charts.delete(node);
  }
  if (height) container.style.height = `${height}px`;
  let chart = live_charts.get(container);
  if (!chart) {
    chart = echarts.init(container, null, {renderer: 'canvas'});
    live_charts.set(container, chart);
    new ResizeObserver(() => {
      if (container.isConnected && !chart.isDisposed() && container.clientWidth !== chart.getWidth()) chart.resize();
    }).observe(container);
  }
  chart.resize();
  return chart;
}

const current_theme = () => (state.dark ? themes.dark : themes.light);

function tooltip_box(theme) {
  return {backgroundColor: theme.raised, borderColor: theme.strong_line, borderWidth: 1, padding: [8, 10], confine: true,
    textStyle: {color: theme.ink, fontSize: 12, fontFamily: 'system-ui, sans-serif'},
    extraCssText: 'max-width:340px;white-space:normal;box-shadow:0 4px 18px rgba(0,0,0,.18)'};
}

// Terms of all given points, the largest first; more than eight are summed up as "other".
function term_groups(points) {
  const totals = new Map();
  for (const i of points)
    for (const {name, seconds} of point_terms(state.model, i)) totals.set(name, (totals.get(name) ?? 0) + seconds);
  const names = [...totals].sort((a, b) => b[1] - a[1]).map(([name]) => name);
  const kept = names.length > 8 ? names.slice(0, 7) : names;
  const theme = current_theme();
  const groups = kept.map((name, k) => ({name, colour: theme.categories[k], names: [name]}));
  if (kept.length < names.length) groups.push({name: `other (${names.length - kept.length} terms)`, colour: theme.categories[7], names: names.slice(7)});
  return groups;
}

// The step with free quantisation, which `overhead` is measured against; the same for every configuration.
function ideal_seconds(points) {
  const step = state.model.column('step_time_s'), overhead = state.model.column('overhead');
  if (!step || !overhead) return null;
  const known = points.find((i) => step.mean[i] > 0 && overhead.mean[i] > -1);
  return known === undefined ? null : step.mean[known] / (1 + overhead.mean[known]);
}

// Stacked bars, one per row {point, name}; `legend` gets the names of the terms.
function paint_cost_bars(container, legend, rows, {title_width}) {
  const {model} = state;
  const theme = current_theme();
  const points = rows.map((row) => row.point);
  const groups = term_groups(points);
  const narrow = container.clientWidth < 560;
  const ideal = ideal_seconds(points);
  const longest = Math.max(...points.map((i) => point_terms(model, i).reduce((sum, term) => sum + term.seconds, 0)));
  const [factor, prefix] = si_prefixes.find(([size]) => longest >= size) ?? [1, ''];
  const sum_of = (i, names) => point_terms(model, i).filter((term) => names.includes(term.name)).reduce((sum, term) => sum + term.seconds, 0);
  const total = (i) => point_terms(model, i).reduce((sum, term) => sum + term.seconds, 0);
  const overhead = model.column('overhead');
  fill(legend, ...groups.map((group) => h('span', {class: 'key'}, swatch(group.colour), group.name)),
    ideal ? h('span', {class: 'key'}, swatch(theme.ink, true), `ideal step: ${si_text(ideal, 's')} (every quantisable GEMM in FP4, quantisation free)`) : '');
  const end_label = (i) => (overhead && Number.isFinite(overhead.mean[i]) ? `+${value_text(overhead, overhead.mean[i])}` : si_text(total(i), 's'));
  const series = groups.map((group, k) => ({
    type: 'bar', stack: 'step', name: group.name, barMaxWidth: 20, barMinHeight: 0, itemStyle: {color: group.colour, borderColor: theme.card, borderWidth: 0.5},
    data: points.map((i) => sum_of(i, group.names) / factor), emphasis: {focus: 'none'}, animation: false,
    markLine: k === 0 && ideal ? {silent: true, symbol: 'none', label: {show: false}, animation: false, lineStyle: {color: theme.ink, type: 'solid', width: 1.6},
      data: [{xAxis: ideal / factor}]} : undefined,
  }));
  // An invisible last bar carries the label at the end of each stack.
  series.push({type: 'bar', stack: 'step', silent: true, data: points.map(() => 0), animation: false, tooltip: {show: false},
    label: {show: true, position: 'right', color: theme.ink, fontSize: 12, formatter: ({dataIndex}) => end_label(points[dataIndex])}});
  const row_height = narrow ? 46 : 30;
  const chart = chart_in(container, rows.length * row_height + 56);
  const width = narrow ? 0 : title_width;
  chart.setOption({
    animation: false, textStyle: {fontFamily: 'system-ui, sans-serif'},
    grid: {left: narrow ? 8 : width + 12, right: 76, top: narrow ? 14 : 8, bottom: 44},
    tooltip: {trigger: 'axis', axisPointer: {type: 'shadow'}, ...tooltip_box(theme), formatter: (items) => {
      const i = points[items[0].dataIndex];
      return h('div', {}, h('b', {}, rows[items[0].dataIndex].name),
        h('table', {class: 'tip-table'}, point_terms(model, i).sort((a, b) => b.seconds - a.seconds).map((term) =>
          h('tr', {}, h('td', {}, term.name), h('td', {}, si_text(term.seconds, 's')), h('td', {}, `${significant(100 * term.seconds / total(i), 2)} %`))),
        h('tr', {class: 'sum'}, h('td', {}, 'step'), h('td', {}, si_text(total(i), 's')), h('td', {}, end_label(i)))));
    }},
    xAxis: {type: 'value', name: `time of one training step (${prefix}s)`, nameLocation: 'middle', nameGap: 28, nameTextStyle: {color: theme.quiet},
      axisLabel: {color: theme.quiet}, splitLine: {lineStyle: {color: theme.line}}},
    yAxis: {type: 'category', inverse: true, data: rows.map((row) => row.name), axisTick: {show: false}, axisLine: {lineStyle: {color: theme.strong_line}},
      axisLabel: narrow
        ? {color: theme.ink, fontSize: 11, inside: true, verticalAlign: 'bottom', padding: [0, 0, 13, -4], width: container.clientWidth - 24, overflow: 'truncate', interval: 0}
        : {color: theme.ink, fontSize: 12, width, overflow: 'truncate', interval: 0},
      z: 10},
    series,
  }, {notMerge: true});
}

function paint_curves(container, legend, point) {
  const {model} = state;
  const theme = current_theme();
  const own = curves_of(model, model.hash[point]);
  const reference_hash = words_at(model.reference_hash, point);
  const reference = reference_hash && reference_hash !== model.hash[point] ? curves_of(model, reference_hash) : [];
  if (!own.length) return false;
  const pairs = (curve, name) => curve.step.map((step, k) => [step, curve[name][k]]).filter(([, loss]) => Number.isFinite(loss));
  const line = (curve, name, colour, type, title) => ({type: 'line', name: `${title}, seed ${curve.seed}`, data: pairs(curve, name), animation: false,
    symbol: name === 'validation' ? 'circle' : 'none', symbolSize: 4, lineStyle: {color: colour, width: name === 'validation' ? 1.8 : 1, type, opacity: name === 'validation' ? 1 : 0.55},
    itemStyle: {color: colour}});
  const series = [
    ...reference.flatMap((curve) => [line(curve, 'train', theme.neutral, 'dotted', 'fp32 training'), line(curve, 'validation', theme.neutral, [6, 3], 'fp32 validation')]),
    ...own.flatMap((curve) => [line(curve, 'train', theme.accent, 'dotted', 'training'), line(curve, 'validation', theme.accent, 'solid', 'validation')]),
  ];
  fill(legend, h('span', {class: 'key'}, swatch(theme.accent, true), `this configuration, ${plural(own.length, 'seed')}`),
    h('span', {class: 'key'}, swatch(theme.neutral, true), reference.length ? 'fp32, same seeds (dashed)' : 'fp32: no curve stored'),
    h('span', {class: 'key quiet'}, 'with dots: validation; dotted: training'));
  const values = series.flatMap((item) => item.data.map(([, loss]) => loss)).filter((loss) => loss > 0).sort((a, b) => a - b);
  const log = values.length > 0 && values.at(-1) / values[0] > 12;
  chart_in(container, 230).setOption({
    animation: false, textStyle: {fontFamily: 'system-ui, sans-serif'}, grid: {left: 52, right: 14, top: 12, bottom: 40},
    tooltip: {trigger: 'axis', ...tooltip_box(theme), formatter: (items) => h('div', {}, h('b', {}, `step ${items[0].value[0]}`),
      h('table', {class: 'tip-table'}, items.slice(0, 12).map((item) => h('tr', {}, h('td', {}, item.seriesName), h('td', {}, significant(item.value[1], 4))))))},
    xAxis: {type: 'value', name: 'step', nameLocation: 'middle', nameGap: 26, nameTextStyle: {color: theme.quiet}, axisLabel: {color: theme.quiet}, splitLine: {show: false},
      axisLine: {lineStyle: {color: theme.strong_line}}},
    yAxis: {type: log ? 'log' : 'value', scale: true, axisLabel: {color: theme.quiet, formatter: (v) => significant(v, 2)}, splitLine: {lineStyle: {color: theme.line}}},
    series,
  }, {notMerge: true});
  return true;
}
