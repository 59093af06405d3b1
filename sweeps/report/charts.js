// Charts other than the scatter share these: making one, keeping its size, tooltips; and the loss curves.

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
  return {
    backgroundColor: theme.raised,
    borderColor: theme.strong_line,
    borderWidth: 1,
    padding: [8, 10],
    confine: true,
    textStyle: {color: theme.ink, fontSize: 12, fontFamily: 'system-ui, sans-serif'},
    extraCssText: 'max-width:340px;white-space:normal;box-shadow:0 4px 18px rgba(0,0,0,.18)',
  };
}

function paint_curves(container, legend, point) {
  const {model} = state;
  const theme = current_theme();
  const own = curves_of(model, model.hash[point]);
  const reference_hash = words_at(model.reference_hash, point);
  const reference = reference_hash && reference_hash !== model.hash[point] ? curves_of(model, reference_hash) : [];
  if (!own.length) return false;
  const pairs = (curve, name) =>
    curve.step.map((step, k) => [step, curve[name][k]]).filter(([, loss]) => Number.isFinite(loss));
  const line = (curve, name, colour, type, title) => ({
    type: 'line',
    name: `${title}, seed ${curve.seed}`,
    data: pairs(curve, name),
    animation: false,
    symbol: name === 'validation' ? 'circle' : 'none',
    symbolSize: 4,
    lineStyle: {color: colour, width: name === 'validation' ? 1.8 : 1, type, opacity: name === 'validation' ? 1 : 0.55},
    itemStyle: {color: colour},
  });
  const series = [
    ...reference.flatMap((curve) => [
      line(curve, 'train', theme.neutral, 'dotted', 'fp32 training'),
      line(curve, 'validation', theme.neutral, [6, 3], 'fp32 validation'),
    ]),
    ...own.flatMap((curve) => [
      line(curve, 'train', theme.accent, 'dotted', 'training'),
      line(curve, 'validation', theme.accent, 'solid', 'validation'),
    ]),
  ];
  fill(
    legend,
    h('span', {class: 'key'}, swatch(theme.accent, true), `this configuration, ${plural(own.length, 'seed')}`),
    h(
      'span',
      {class: 'key'},
      swatch(theme.neutral, true),
      reference.length ? 'fp32, same seeds (dashed)' : 'fp32: no curve stored',
    ),
    h('span', {class: 'key quiet'}, 'with dots: validation; dotted: training'),
  );
  const values = series
    .flatMap((item) => item.data.map(([, loss]) => loss))
    .filter((loss) => loss > 0)
    .sort((a, b) => a - b);
  const log = values.length > 0 && values.at(-1) / values[0] > 12;
  chart_in(container, 230).setOption(
    {
      animation: false,
      textStyle: {fontFamily: 'system-ui, sans-serif'},
      grid: {left: 52, right: 14, top: 12, bottom: 40},
      tooltip: {
        trigger: 'axis',
        ...tooltip_box(theme),
        formatter: (items) =>
          h(
            'div',
            {},
            h('b', {}, `step ${items[0].value[0]}`),
            h(
              'table',
              {class: 'tip-table'},
              items
                .slice(0, 12)
                .map((item) => h('tr', {}, h('td', {}, item.seriesName), h('td', {}, significant(item.value[1], 4)))),
            ),
          ),
      },
      xAxis: {
        type: 'value',
        name: 'step',
        nameLocation: 'middle',
        nameGap: 26,
        nameTextStyle: {color: theme.quiet},
        axisLabel: {color: theme.quiet},
        splitLine: {show: false},
        axisLine: {lineStyle: {color: theme.strong_line}},
      },
      yAxis: {
        type: log ? 'log' : 'value',
        scale: true,
        axisLabel: {color: theme.quiet, formatter: (v) => significant(v, 2)},
        splitLine: {lineStyle: {color: theme.line}},
      },
      series,
    },
    {notMerge: true},
  );
  return true;
}
