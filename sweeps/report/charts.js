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
    chart.setOption = (option, how) => {
      chart.drawn = option; // what an export draws again
      draw(option, how);
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
