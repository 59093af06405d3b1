// Fronts by means, axis scales and colour groups: the arithmetic behind the scatter chart, free of the document.

// Smaller is better after this sign.
const direction = (column) => (column.lower_is_better ? 1 : -1);

// Indices of points that no other point of the list beats in both means (ties kept), in the order of x.
function front_by_means(points, x, y) {
  const a = direction(x),
    b = direction(y);
  const sorted = points
    .filter((i) => !Number.isNaN(x.mean[i]) && !Number.isNaN(y.mean[i]))
    .sort((i, j) => a * (x.mean[i] - x.mean[j]) || b * (y.mean[i] - y.mean[j]));
  const front = [];
  let best = Infinity;
  for (const i of sorted) {
    if (b * y.mean[i] >= best) continue;
    best = b * y.mean[i];
    front.push(i);
  }
  return front;
}

// The front of a context, in the order of x. In the view it was judged for (kind):
//   tested     what fresh seeds put on it
//   undecided  fresh seeds put nothing on it: the best means among what they left open
//   screening  the best means of few seeds
// In other views, or where nothing was judged, `means`: the best means of all, which no test stands behind.
function front_of(model, context_points, x, y) {
  const usable = context_points.filter((i) => model.states[i] !== 'diverged' && model.states[i] !== 'failed');
  if (x.name === model.head.x && y.name === model.head.y) {
    const of = (state) => usable.filter((i) => model.states[i] === state);
    const on = of('on');
    if (on.length) return {points: on.sort((i, j) => direction(x) * (x.mean[i] - x.mean[j])), kind: 'tested'};
    const open = of('undecided');
    if (open.length) return {points: front_by_means(open, x, y), kind: 'undecided'};
    const screening = of('screening');
    if (screening.length) return {points: front_by_means(screening, x, y), kind: 'screening'};
  }
  return {points: front_by_means(usable, x, y), kind: 'means'};
}

// Linear, or sign(v) * log10(1 + |v| / unit): a logarithm that lets a gap of zero, or below, stay on the chart.
function make_scale(kind, values) {
  if (kind === 'linear') return {kind, to: (v) => v, from: (v) => v, ticks: null};
  const sizes = values
    .map(Math.abs)
    .filter((v) => v > 0 && Number.isFinite(v))
    .sort((a, b) => a - b);
  const small = sizes.length ? sizes[Math.floor(sizes.length * 0.1)] : 1;
  const unit = 10 ** Math.floor(Math.log10(small));
  const to = (v) => Math.sign(v) * Math.log10(1 + Math.abs(v) / unit);
  const from = (v) => Math.sign(v) * unit * (10 ** Math.abs(v) - 1);
  const ticks = (low, high) => {
    const list = [0];
    for (let power = 0; power < 30; ++power)
      for (const digit of [1, 2, 5]) list.push(unit * digit * 10 ** power, -unit * digit * 10 ** power);
    const inside = list.filter((v) => to(v) >= low && to(v) <= high).sort((a, b) => a - b);
    // At most about six labels: keep powers of ten first.
    const is_power = (v) => v === 0 || Math.abs(Math.log10(Math.abs(v)) % 1) < 1e-9;
    return inside.length > 7 && inside.filter(is_power).length > 2 ? inside.filter(is_power) : inside;
  };
  return {kind, to, from, ticks};
}

// Logarithmic where most points would otherwise sit in the lowest tenth of the axis.
function default_scale(values) {
  const known = values.filter((v) => Number.isFinite(v)).sort((a, b) => a - b);
  if (known.length < 5) return 'linear';
  const span = known.at(-1) - known[0];
  return span > 0 && (known[Math.floor(known.length * 0.6)] - known[0]) / span < 0.1 ? 'log' : 'linear';
}

// How points are coloured: groups with a name, a colour and a member test, small enough in number to be series.
// long: a list of groups for each word of `colour`
function colour_groups(model, view, points, dark) {
  const theme = dark ? themes.dark : themes.light;
  if (view.colour === 'status')
    return state_order
      .filter((state) => state !== 'failed')
      .map((state) => ({
        name: state_words[state],
        state,
        colour: theme.states[state],
        test: (i) => model.states[i] === state || (state === 'diverged' && model.states[i] === 'failed'),
      }));
  const axis = view.colour.startsWith('axis ') ? model.axis(view.colour.slice(5)) : null;
  if (axis) {
    const used = new Set(points.map((i) => axis.codes[i]));
    const codes = axis.order.filter((code) => used.has(code));
    const numeric =
      codes.length > theme.categories.length - 1 &&
      codes.every((code) => axis.values[code] === '' || !Number.isNaN(Number(axis.values[code])));
    const named = numeric ? codes : codes.slice(0, theme.categories.length - 1);
    const groups = named.map((code, k) => ({
      name: axis.values[code] || 'not applicable',
      colour:
        axis.values[code] === ''
          ? theme.neutral
          : numeric
            ? sequence_colour(k / Math.max(named.length - 1, 1), dark)
            : theme.categories[k],
      test: (i) => axis.codes[i] === code,
    }));
    if (named.length < codes.length) {
      const rest = new Set(codes.slice(named.length));
      groups.push({
        name: plural(rest.size, 'other value'),
        colour: theme.categories.at(-1),
        test: (i) => rest.has(axis.codes[i]),
      });
    }
    return groups;
  }
  // A number: ten classes of equal width over the middle 98 % of the points.
  const column = model.column(view.colour);
  const known = points
    .map((i) => column.mean[i])
    .filter((v) => Number.isFinite(v))
    .sort((a, b) => a - b);
  if (!known.length) return [{name: 'unknown', colour: theme.neutral, test: () => true}];
  const low = known[Math.floor(known.length * 0.01)],
    high = known[Math.ceil(known.length * 0.99) - 1];
  const classes = high > low ? 10 : 1;
  const class_of = (v) => Math.min(Math.max(Math.floor(((v - low) / (high - low || 1)) * classes), 0), classes - 1);
  const groups = Array.from({length: classes}, (_, k) => ({
    name: `${value_text(column, low + ((high - low) * k) / classes)} …`,
    colour: sequence_colour(classes > 1 ? k / (classes - 1) : 0.5, dark),
    ramp: true,
    test: (i) => Number.isFinite(column.mean[i]) && class_of(column.mean[i]) === k,
  }));
  groups.ramp = {low, high, column};
  if (known.length < points.length)
    groups.push({name: 'unknown', colour: theme.neutral, test: (i) => !Number.isFinite(column.mean[i])});
  return groups;
}
