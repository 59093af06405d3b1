// What every chart shares: making one, keeping its size, tooltips, the numbers and letters of its points.

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
    const draw = chart.setOption.bind(chart);
    chart.setOption = (option) => {
      chart.drawn = {...chart_defaults, ...option}; // what an export draws again
      draw(chart.drawn, {notMerge: true});
    };
    live_charts.set(container, chart);
    new ResizeObserver(() => {
      if (container.isConnected && !chart.isDisposed() && container.clientWidth !== chart.getWidth()) chart.resize();
    }).observe(container);
  }
  chart.resize();
  return chart;
}

const current_theme = () => (state.dark ? themes.dark : themes.light);

const chart_defaults = {animation: false, textStyle: {fontFamily: 'system-ui, sans-serif'}};

// `content` of what lies under the mouse: its title and what stands below.
const tooltip = (theme, trigger, content) => ({
  trigger,
  formatter: (what) => {
    const [title, ...rest] = content(what);
    return h('div', h('b', title), rest);
  },
  backgroundColor: theme.raised,
  borderColor: theme.strong_line,
  borderWidth: 1,
  padding: [8, 10],
  confine: true,
  textStyle: {color: theme.ink, fontSize: 12, fontFamily: 'system-ui, sans-serif'},
  extraCssText: 'max-width:340px;white-space:normal;box-shadow:0 4px 18px rgba(0,0,0,.18)',
});

// Rows of cells, without the nothings.
const tip_table = (rows) =>
  h(
    'table.tip-table',
    rows.filter(Boolean).map((cells) =>
      h(
        'tr',
        cells.map((cell) => h('td', cell)),
      ),
    ),
  );

// The title of an axis, at its middle.
const axis_name = (name, nameGap, nameTextStyle) => ({name, nameLocation: 'middle', nameGap, nameTextStyle});

// An axis of rows, the first at the top; `label` of its labels.
const row_axis = (data, label, more = {}) => ({
  type: 'category',
  inverse: true,
  data,
  axisTick: {show: false},
  axisLine: {show: false},
  axisLabel: {interval: 0, overflow: 'truncate', ...label},
  ...more,
});

// Lines and marks that are only looked at.
const plain_line = (data, lineStyle, more) => ({type: 'line', data, symbol: 'none', silent: true, lineStyle, ...more});
// A piece of a line that is not joined to the next.
const stroke = (from, to) => [from, to, [null, null]];
const marks_at = (data, lineStyle, label = {show: false}) => ({silent: true, symbol: 'none', label, lineStyle, data});

// Text that stands on a chart's lines.
const label_on = (theme, style) => ({show: true, textBorderColor: theme.card, textBorderWidth: 3, ...style});
