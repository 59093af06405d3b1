// Loss curves of one configuration, of its fp32 reference, and of every other pinned configuration laid over them.

// What the curve chart shows, first what the panel is about: [{point, colour, title, curves}].
function curve_groups(point) {
  const {model} = state;
  const theme = current_theme();
  const context = words_at(model.context, point);
  const others = state.pins.filter((i) => i !== point && words_at(model.context, i) === context);
  const letter = (i) => (state.pins.includes(i) ? `${pin_letter(i)}: ` : '');
  const group = (i, colour) => ({
    point: i,
    colour,
    title: letter(i) + point_label(model, i, 2),
    curves: curves_of(model, model.hash[i]),
  });
  return [group(point, theme.accent), ...others.map((i, k) => group(i, theme.categories[1 + k]))];
}

function curve_series(curve, name, colour, type, title) {
  const validation = name === 'validation';
  return {
    type: 'line',
    name: `${title}, seed ${curve.seed}`,
    data: curve.step.map((step, k) => [step, curve[name][k]]).filter(([, loss]) => Number.isFinite(loss)),
    symbol: validation ? 'circle' : 'none',
    symbolSize: 4,
    lineStyle: {color: colour, width: validation ? 1.8 : 1, type, opacity: validation ? 1 : 0.55},
    itemStyle: {color: colour},
  };
}

// False where no curve of the configuration is stored.
function paint_curves(container, legend, point) {
  const {model} = state;
  const theme = current_theme();
  const [own, ...others] = curve_groups(point);
  const reference_hash = words_at(model.reference_hash, point);
  const reference = reference_hash && reference_hash !== model.hash[point] ? curves_of(model, reference_hash) : [];
  if (!own.curves.length) return false;
  const alone = !others.length;
  const validation = (group, type = 'solid') =>
    group.curves.map((curve) => curve_series(curve, 'validation', group.colour, type, `${group.title}, validation`));
  const training = (group) =>
    group.curves.map((curve) => curve_series(curve, 'train', group.colour, 'dotted', `${group.title}, training`));
  const fp32 = {title: 'fp32', colour: theme.neutral, curves: reference};
  const series = [
    ...(alone ? training(fp32) : []),
    ...validation(fp32, [6, 3]),
    ...others.flatMap((group) => validation(group)),
    ...(alone ? training(own) : []),
    ...validation(own),
  ];
  const key = (group, text) => h('span.key', swatch(group.colour, true), text);
  fill(
    legend,
    key(own, alone ? `this configuration, ${plural(own.curves.length, 'seed')}` : own.title),
    others.map((group) => key(group, group.curves.length ? group.title : `${group.title}, no curve stored`)),
    key(fp32, reference.length ? 'fp32, same seeds (dashed)' : 'fp32: no curve stored'),
    h('span.key.quiet', alone ? 'with dots: validation; dotted: training' : 'validation, a line a seed'),
  );
  const values = series
    .flatMap((item) => item.data.map(([, loss]) => loss))
    .filter((loss) => loss > 0)
    .sort((a, b) => a - b);
  const log = values.length > 0 && values.at(-1) / values[0] > 12;
  chart_in(container, 230).setOption({
    grid: {left: 52, right: 14, top: 12, bottom: 40},
    tooltip: tooltip(theme, 'axis', (items) => [
      `step ${items[0].value[0]}`,
      tip_table(items.slice(0, 12).map((item) => [item.seriesName, significant(item.value[1], 4)])),
    ]),
    xAxis: {
      type: 'value',
      ...axis_name('step', 26, {color: theme.quiet}),
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
  });
  return true;
}

// The numbers behind the curves: what the chart's CSV holds.
function curve_rows(point) {
  const rows = [['configuration', 'config_hash', 'seed', 'step', 'train_loss', 'validation_loss']];
  for (const group of curve_groups(point))
    for (const curve of group.curves)
      curve.step.forEach((step, k) =>
        rows.push([group.title, state.model.hash[group.point], curve.seed, step, curve.train[k], curve.validation[k]]),
      );
  return rows;
}
