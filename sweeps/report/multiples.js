// All contexts side by side: the scatter of each on its own scales, with the numbered points named below it.

const most_panels = 12;

function multiple_panel(context) {
  const {model} = state;
  const title = short_context(context);
  const chart = h('div.chart', {role: 'img'});
  const names = h('ol.names.small');
  const tools = h('div.export');
  const node = h(
    'div.card.multiple',
    {'data-context': context},
    h(
      'h3',
      context === state.context
        ? h('b', {'aria-current': 'true'}, title)
        : h('button.link', {onclick: () => choose_context(context)}, title),
    ),
    chart,
    tools,
    names,
  );
  return {context, title, chart, names, tools, node};
}

function paint_multiple({context, title, chart, names, tools}) {
  const {model} = state;
  const live = chart_in(chart, 300);
  const view = {
    ...scatter_view(),
    context,
    visible: select_points(context).visible,
    range: null,
    narrow: true,
    numbers: true,
    size: [chart.clientWidth - 62, 228],
  };
  const {option, layout} = scatter_option(model, view, state.dark);
  live.setOption(option);
  const front = layout.front.points;
  chart.setAttribute(
    'aria-label',
    `${title}: ${plural(layout.shown.length, 'configuration')}, ${front.length} on the line (${front_kinds[layout.front.kind].line})`,
  );
  const shown = named_points(model, view, layout);
  fill(
    names,
    shown.slice(0, 8).map((text) => h('li', text)),
    shown.length > 8 ? h('li.quiet', `and ${shown.length - 8} more`) : null,
  );
  export_buttons(tools, chart, {
    title: () => `${model.column(state.y).label} against ${model.column(state.x).label}, ${title}`,
    legend: by_id('legend'),
    names: () => shown,
    rows: () => point_rows(layout),
  });
}

function paint_multiples() {
  const {model} = state;
  const contexts = [...model.context.values].sort(natural_order);
  by_id('multiples').hidden = contexts.length < 2;
  if (contexts.length < 2) return;
  const shown = contexts.slice(0, most_panels);
  by_id('multiples-intro').textContent =
    `${model.column(state.y).label} against ${model.column(state.x).label}, every task on its own scale, with the filters and colours chosen above. ` +
    'Losses of two tasks are not comparable; the order of the recipes is.' +
    (shown.length < contexts.length ? ` The first ${shown.length} of ${contexts.length} are drawn.` : '');
  const panels = shown.map(multiple_panel);
  fill(by_id('multiples-charts'), ...panels.map((panel) => panel.node));
  panels.forEach(paint_multiple);
}

function setup_multiples() {
  on_change('task view filter pins theme size', paint_multiples, true);
}
