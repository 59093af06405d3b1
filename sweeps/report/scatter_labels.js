// What is written into the scatter: names of baselines, and names and numbers of the front as in its list.

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
          formatter: () => (view.narrow ? name(i) : `${name(i)}: ${value_text(x, x.mean[i])}`),
          position: right ? 'left' : 'right',
          offset: [right ? 6 : -6, -14],
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
    label: label_on(theme, {position: 'top', color: theme.ink, fontSize: size, distance: 5}),
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
    item.label.offset[1] = -14 - shift;
  }
}

// "1 scale=ue4m3", "A block=16", "undecided: bf16": the numbered, lettered and open points in words, as a figure names
// them below itself.
function named_points(model, view, layout) {
  const judged = view.x === model.head.x && view.y === model.head.y;
  const front = judged ? layout.front.points.filter((i) => layout.shown.includes(i)) : [];
  const open = judged
    ? layout.shown.filter((i) => model.states[i] === 'undecided' && !layout.front.points.includes(i))
    : [];
  const pins = view.pins.filter((i) => words_at(model.context, i) === view.context);
  // As many names as a line has room for, one at least.
  const names = (points) => {
    let text = '';
    for (const [k, i] of points.entries()) {
      const name = point_label(model, i, 2);
      if (k > 0 && text.length + name.length > 38) return `${text} and ${points.length - k} more`;
      text += (k > 0 ? ', ' : '') + name;
    }
    return text;
  };
  return [
    ...front.map((i) => {
      const tied = tied_with(model, i, layout.x);
      return (
        `${layout.front.points.indexOf(i) + 1} ${point_label(model, i, 3)}` +
        (tied.length ? `; tied with it: ${names(tied)}` : '')
      );
    }),
    ...(open.length ? [`undecided: ${names(open)}`] : []),
    ...pins.map((i) => `${String.fromCharCode(65 + view.pins.indexOf(i))} ${point_label(model, i, 3)}`),
  ];
}

// The named points and their texts, the most important first: the front with its numbers, what is tied with it.
function label_texts(model, view, layout) {
  if (view.x !== model.head.x || view.y !== model.head.y) return [];
  const visible = new Set(layout.shown);
  const front = layout.front.points;
  const name = (i) => {
    // A name that is cut short tells two points apart no better than their numbers.
    const text = point_label(model, i);
    return view.numbers || text.length > 30 ? '' : text;
  };
  const steps = front.map((i, k) => ({i, number: String(k + 1), text: model.baseline[i] ? '' : name(i), bold: true}));
  const tied = front
    .flatMap((i) => tied_with(model, i, layout.x))
    .filter((i) => !model.baseline[i])
    .map((i) => ({i, number: '', text: name(i), bold: false}));
  // Where two axes of few values name them, all points.
  const own = layout.shown.filter((i) => !model.baseline[i]);
  const named = new Set([...front, ...tied.map(({i}) => i)]);
  const rest =
    naming_axes(model, view.context).length && own.length <= 12
      ? own.filter((i) => !named.has(i)).map((i) => ({i, number: '', text: name(i), bold: false}))
      : [];
  return [...steps, ...(tied.length > 24 ? [] : tied), ...rest].filter(({i}) => visible.has(i) && !layout.far.has(i));
}

// Where a text of `width` pixels stands beside a mark at (x, y), by the side it is on; y grows upwards. `shift`: pixels
// down, as the chart library counts them.
const label_sides = [
  {position: 'right', shift: -13, box: (x, y, width) => [x + 8, y + 5, x + 12 + width, y + 21]},
  {position: 'right', shift: 13, box: (x, y, width) => [x + 8, y - 21, x + 12 + width, y - 5]},
  {position: 'top', shift: 0, box: (x, y, width) => [x - width / 2 - 2, y + 8, x + width / 2 + 2, y + 24]},
  {position: 'bottom', shift: 0, box: (x, y, width) => [x - width / 2 - 2, y - 24, x + width / 2 + 2, y - 8]},
  {position: 'left', shift: -13, box: (x, y, width) => [x - 12 - width, y + 5, x - 8, y + 21]},
  {position: 'left', shift: 13, box: (x, y, width) => [x - 12 - width, y - 21, x - 8, y - 5]},
  {position: 'right', shift: 0, box: (x, y, width) => [x + 8, y - 8, x + 12 + width, y + 8]},
  {position: 'left', shift: 0, box: (x, y, width) => [x - 12 - width, y - 8, x - 8, y + 8]},
];

// Names beside the front points, as in the list of the front. A text takes the side where it covers no other text and
// the fewest marks; where there is none it shrinks to its number, then to nothing.
// long: one search for places, over boxes that are already taken
function number_series(model, layout, view, theme, size) {
  const {x, y, shown, x_scale, y_scale, range} = layout;
  const [width, height] = view.size ?? [700, 450];
  const place = (i) => [x_scale.to(x.mean[i]), y_scale.to(y.mean[i])];
  const pixels = (i) => {
    const [across, up] = place(i);
    return [
      ((across - range.x[0]) / (range.x[1] - range.x[0])) * width,
      ((up - range.y[0]) / (range.y[1] - range.y[0])) * height,
    ];
  };
  const marks = shown.length <= 400 ? shown.map(pixels) : layout.front.points.map(pixels);
  const text_width = (text) => text.length * (size - 1) * 0.6;
  // The names of baselines stand above their marks.
  const taken = shown
    .filter((i) => model.baseline[i] && !layout.far.has(i))
    .map((i) => label_sides[2].box(...pixels(i), text_width(words_at(model.name, i))));
  const edges = shown.filter((i) => layout.far.has(i)).map((i) => pixels(i)[1]);
  for (const up of edges) taken.push([width - (view.narrow ? 44 : 96), up - 6, width, up + 22]);
  const covers = (a, b) => a[0] < b[2] && b[0] < a[2] && a[1] < b[3] && b[1] < a[3];
  // The parts of the staircase, each to the right and then down.
  const corners = layout.front.points.map(pixels);
  const lines = corners.flatMap(([a, b], k) => {
    const next = corners[k + 1] ?? [width, b];
    return [
      [a, b - 1, next[0], b + 1],
      [next[0] - 1, Math.min(b, next[1]), next[0] + 1, Math.max(b, next[1])],
    ];
  });
  const data = [];
  for (const {i, number, text, bold} of label_texts(model, view, layout)) {
    const at = pixels(i);
    if (at[0] < 0 || at[0] > width || at[1] < 0 || at[1] > height) continue;
    let best = null;
    for (const shown_text of [`${number} ${text}`.trim(), number]) {
      if (!shown_text || best) continue;
      for (const side of label_sides) {
        const box = side.box(...at, text_width(shown_text));
        if (box[0] < 2 || box[2] > width - 2 || box[1] < 2 || box[3] > height - 2) continue;
        if (taken.some((other) => covers(box, other))) continue;
        const lies_in = ([a, b], edge) =>
          a > box[0] - edge && a < box[2] + edge && b > box[1] - edge && b < box[3] + edge;
        // Beside another mark a name without a number would be taken for that one's: the list has it.
        if (!number && marks.some((mark) => lies_in(mark, 8))) continue;
        const covered =
          marks.filter((mark) => lies_in(mark, 3)).length + lines.filter((part) => covers(box, part)).length / 2;
        if (!best || covered < best.covered) best = {side, box, text: shown_text, covered};
      }
    }
    if (!best) continue;
    taken.push(best.box);
    data.push({
      value: place(i),
      label: {
        formatter: () => best.text,
        position: best.side.position,
        offset: [0, best.side.shift],
        fontWeight: bold ? 600 : 400,
      },
    });
  }
  return {
    type: 'scatter',
    data,
    symbolSize: 1,
    silent: true,
    z: 7,
    itemStyle: {color: 'transparent'},
    label: label_on(theme, {position: 'right', distance: 9, color: theme.ink, fontSize: size - 1}),
  };
}
