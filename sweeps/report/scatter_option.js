// The Pareto scatter as an option of the chart library: a pure function of model, view and theme, used by the page and
// by tools/scripts/figure.mjs alike. Grid 0 is the chart, grid 1 the strip of diverged runs above it; both share x.
//
// view: {context, x, y, colour, x_scale, y_scale, intervals, visible, pins, range, wide, narrow, size,
//   numbers: the front has numbers only}

const front_colour = (kind, theme) =>
  ({tested: theme.states.on, undecided: theme.states.undecided, screening: theme.states.screening})[kind] ??
  theme.quiet;

// Corners of the staircase below which nothing was reached.
function staircase(points, x, y, layout, range) {
  const corners = [];
  const place = (i) => [layout.x_scale.to(x.mean[i]), layout.y_scale.to(y.mean[i])];
  points.forEach((i, k) => {
    if (k) corners.push([place(i)[0], place(points[k - 1])[1]]);
    corners.push(place(i));
  });
  if (points.length)
    corners.push([x.lower_is_better ? Math.max(range.x[1], corners.at(-1)[0]) : corners.at(-1)[0], corners.at(-1)[1]]);
  return corners;
}

function scale_axis(scale, range, column, theme, size) {
  const ticks = scale.ticks ? scale.ticks(range[0], range[1]) : null;
  const custom = ticks ? {customValues: ticks.map(scale.to)} : {};
  return {
    type: 'value',
    min: range[0],
    max: range[1],
    axisLine: {show: true, lineStyle: {color: theme.strong_line}},
    axisTick: {show: true, lineStyle: {color: theme.strong_line}, ...custom},
    axisLabel: {
      color: theme.quiet,
      fontSize: size,
      hideOverlap: true,
      showMinLabel: ticks ? undefined : false,
      showMaxLabel: ticks ? undefined : false,
      formatter: (v) => tick_text(column, Number(scale.from(v).toPrecision(6))),
      ...custom,
    },
    splitLine: {lineStyle: {color: theme.line}, ...custom},
  };
}

// long: one object, as the chart library takes it
function scatter_option(model, view, dark) {
  const theme = dark ? themes.dark : themes.light;
  const layout = scatter_layout(model, view);
  const {x, y, shown, strip, front, local, x_scale, y_scale, range} = layout;
  const size = view.narrow ? 11 : 12;
  const place = (i) => [x_scale.to(x.mean[i]), y_scale.to(y.mean[i])];
  const groups = colour_groups(model, view, [...shown, ...strip], dark);
  const series = [];
  for (const group of groups) {
    group.count = 0;
    const by_state = new Map();
    for (const i of shown) {
      if (!group.test(i)) continue;
      ++group.count;
      if (!by_state.has(model.states[i])) by_state.set(model.states[i], []);
      by_state.get(model.states[i]).push(i);
    }
    for (const [state, points] of by_state) {
      const many = points.length > 1500;
      const crowd = (shown.length > 4000 ? 0.75 : 1) * (view.narrow ? 0.75 : 1);
      series.push({
        type: 'scatter',
        name: group.name,
        symbol: symbols[state],
        silent: true,
        symbolSize: symbol_sizes[state] * (crowd_states.has(state) ? crowd : view.narrow ? 0.8 : 1),
        large: many,
        largeThreshold: 1500,
        clip: true,
        z: state === 'off' ? 2 : state === 'candidate' ? 3 : 5,
        data: points.map(place),
        itemStyle: {
          color: group.colour,
          opacity: state === 'off' ? (shown.length > 4000 ? 0.4 : 0.62) : 1,
          borderColor: crowd_states.has(state) ? 'transparent' : theme.card,
          borderWidth: crowd_states.has(state) ? 0 : 1,
        },
      });
    }
    const fallen = strip.filter(group.test);
    group.count += fallen.length;
    if (fallen.length)
      series.push({
        type: 'scatter',
        name: group.name,
        symbol: symbols.diverged,
        symbolSize: symbol_sizes.diverged,
        silent: true,
        xAxisIndex: 1,
        yAxisIndex: 1,
        z: 3,
        data: fallen.map((i) => [x_scale.to(x.mean[i]), 0]),
        itemStyle: {color: group.colour, opacity: fallen.length > 200 ? 0.5 : 0.9},
      });
  }
  const bars = [];
  for (const i of layout.interval_points) {
    if (!Number.isFinite(y.low[i])) continue;
    const [at, level] = place(i);
    bars.push([at, y_scale.to(y.low[i])], [at, y_scale.to(y.high[i])], [null, null]);
    if (Number.isFinite(x.low?.[i]))
      bars.push([x_scale.to(x.low[i]), level], [x_scale.to(x.high[i]), level], [null, null]);
  }
  if (bars.length)
    series.push(
      plain_line(
        bars,
        {color: theme.ink, width: 1.2, opacity: view.intervals === 'all' ? 0.35 : 0.7},
        {z: 4, clip: true},
      ),
    );
  if (local.length)
    series.push(
      plain_line(
        staircase(local, x, y, layout, range),
        {color: theme.quiet, width: 1.4, type: [3, 4]},
        {name: 'front of the selection', z: 3, clip: true},
      ),
    );
  series.push(
    plain_line(
      staircase(front.points, x, y, layout, range),
      {color: front_colour(front.kind, theme), width: 2, type: front.kind === 'tested' ? 'solid' : [7, 5]},
      {name: 'front', z: 3, clip: true},
    ),
  );
  series.push(label_series(model, view, layout, theme, size));
  series.push(number_series(model, layout, view, theme, size));
  const pins = view.pins.filter((i) => shown.includes(i));
  series.push({
    type: 'scatter',
    data: pins.map((i) => ({value: place(i), label: {formatter: String.fromCharCode(65 + view.pins.indexOf(i))}})),
    symbol: 'circle',
    symbolSize: 24,
    silent: true,
    z: 8,
    itemStyle: {color: 'transparent', borderColor: theme.accent, borderWidth: 2.5},
    label: label_on(theme, {position: 'right', distance: 2, color: theme.accent, fontWeight: 700, fontSize: 13}),
  });
  const strip_height = strip.length ? 22 : 0;
  const left = view.narrow ? 52 : 66,
    right = view.narrow ? 10 : 18,
    bottom = 44;
  const hidden = {axisLine: {show: false}, axisTick: {show: false}, axisLabel: {show: false}, splitLine: {show: false}};
  const option = {
    backgroundColor: 'transparent',
    grid: [
      {left, right, top: 28 + (strip_height ? strip_height + 8 : 0), bottom},
      {
        left,
        right,
        top: 26,
        height: strip_height,
        show: strip_height > 0,
        backgroundColor: theme.background,
        borderColor: theme.line,
        borderWidth: 1,
      },
    ],
    xAxis: [
      {
        ...scale_axis(x_scale, range.x, x, theme, size),
        gridIndex: 0,
        ...axis_name(
          `${column_title(x)}${model.head.workload ? ` of ${model.head.workload}, modelled` : ''}${x.lower_is_better ? '  → costs more' : ''}`,
          28,
          {color: theme.ink, fontSize: size},
        ),
      },
      {type: 'value', gridIndex: 1, min: range.x[0], max: range.x[1], ...hidden},
    ],
    yAxis: [
      {
        ...scale_axis(y_scale, range.y, y, theme, size),
        gridIndex: 0,
        name: `${column_title(y)} of the small ${view.context}${y.lower_is_better ? '  ↑ worse' : '  ↑ better'}`,
        nameGap: strip_height + 16,
        nameTextStyle: {color: theme.ink, fontSize: size, align: 'left', padding: [0, 0, 0, -left + 12]},
      },
      {
        type: 'value',
        gridIndex: 1,
        min: -1,
        max: 1,
        ...hidden,
        ...(strip_height
          ? {
              axisLabel: {
                show: true,
                color: theme.states.diverged,
                fontSize: size - 1,
                customValues: [0],
                formatter: () => 'diverged',
              },
              axisTick: {show: false, customValues: [0]},
            }
          : {}),
      },
    ],
    series,
  };
  return {option, layout, groups, theme};
}
