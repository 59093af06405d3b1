// What is written into the scatter: names of baselines, and the numbers that the front has in its list.

// Baselines carry their names.
function label_series(model, view, layout, theme, size) {
  const {x, y, shown, far, x_scale, y_scale, range} = layout;
  const name = (i) => words_at(model.name, i) || 'baseline';
  const inside = (i) => x_scale.to(x.mean[i]) <= range.x[1] && x_scale.to(x.mean[i]) >= range.x[0];
  const data = shown
    .filter((i) => model.baseline[i])
    .filter((i) => inside(i) || far.has(i))
    .map((i) => {
      const height = y_scale.to(y.mean[i]);
      if (inside(i)) return {value: [x_scale.to(x.mean[i]), height], label: {formatter: () => name(i)}};
      // At the edge: an arrow that says where it would stand.
      const right = x_scale.to(x.mean[i]) > range.x[1];
      return {
        value: [right ? range.x[1] : range.x[0], height],
        symbol: 'triangle',
        symbolSize: 9,
        symbolRotate: right ? -90 : 90,
        symbolOffset: [right ? -6 : 6, 0],
        itemStyle: {color: theme.ink},
        label: {
          formatter: () => `${name(i)}: ${value_text(x, x.mean[i])}`,
          position: right ? 'left' : 'right',
          offset: [right ? -6 : 6, 0],
        },
      };
    });
  spread_edge_labels(data, view, range);
  return {
    type: 'scatter',
    data,
    symbol: 'circle',
    symbolSize: 17,
    silent: true,
    z: 6,
    itemStyle: {color: 'transparent', borderColor: theme.ink, borderWidth: 1.4},
    label: {
      show: true,
      position: 'top',
      color: theme.ink,
      fontSize: size,
      distance: 5,
      textBorderColor: theme.card,
      textBorderWidth: 3,
    },
    animation: false,
  };
}

// Arrows at nearly the same height share a line of text: the second label would cover the first.
function spread_edge_labels(data, view, range) {
  const height = (view.size ?? [700, 450])[1];
  const pixel = (item) => ((item.value[1] - range.y[0]) / (range.y[1] - range.y[0])) * height;
  const edge = data.filter((item) => item.symbol).sort((a, b) => pixel(a) - pixel(b));
  let last = -Infinity;
  for (const item of edge) {
    const shift = Math.max(0, last + 15 - pixel(item));
    last = pixel(item) + shift;
    item.label.offset[1] = -shift;
  }
}

// "1 scale=ue4m3", "A block=16": the numbered and lettered points in words, as a figure names them below itself.
function named_points(model, view, layout) {
  const judged = view.x === model.head.x && view.y === model.head.y;
  const front = judged ? layout.front.points.filter((i) => layout.shown.includes(i)) : [];
  const pins = view.pins.filter((i) => words_at(model.context, i) === view.context);
  return [
    ...front.map((i) => `${layout.front.points.indexOf(i) + 1} ${point_label(model, i, 3)}`),
    ...pins.map((i) => `${String.fromCharCode(65 + view.pins.indexOf(i))} ${point_label(model, i, 3)}`),
  ];
}

// Numbers beside the front points, as in the list of the front; left out where they would cover each other.
function number_series(layout, view, theme, size) {
  const {x, y, front, shown, x_scale, y_scale, range} = layout;
  const [width, height] = view.size ?? [700, 450];
  const visible = new Set(shown);
  const placed = [];
  const data = [];
  front.points.forEach((i, k) => {
    if (!visible.has(i)) return;
    const value = [x_scale.to(x.mean[i]), y_scale.to(y.mean[i])];
    const at = [
      ((value[0] - range.x[0]) / (range.x[1] - range.x[0])) * width,
      ((value[1] - range.y[0]) / (range.y[1] - range.y[0])) * height,
    ];
    if (placed.some((other) => Math.abs(other[0] - at[0]) < 17 && Math.abs(other[1] - at[1]) < 13)) return;
    placed.push(at);
    data.push({value, label: {formatter: () => String(k + 1)}});
  });
  return {
    type: 'scatter',
    data,
    symbolSize: 1,
    silent: true,
    animation: false,
    z: 7,
    itemStyle: {color: 'transparent'},
    label: {
      show: true,
      position: 'left',
      distance: 8,
      color: theme.ink,
      fontSize: size - 1,
      fontWeight: 600,
      textBorderColor: theme.card,
      textBorderWidth: 3,
    },
  };
}
