// What the user has chosen, and which points that leaves. Every control changes `state` and calls `refresh`; sections
// register a function that redraws them.

const state = {
  pack: null,
  model: null, // of the chip on show
  context: '',
  x: '',
  y: '',
  colour: 'status',
  usual_colour: 'status', // of the context: its first axis where two of few values name the points
  x_scale: 'auto',
  y_scale: 'auto',
  intervals: 'front',
  range: null,
  wide: false,
  dark: false,
  filters: new Map(),
  pins: [],
  panel: 'front',
};
const painters = []; // [{needs: Set of reasons, paint}]

// `later`: not on the first screen, painted once that is visible.
const on_change = (reasons, paint, later = false) => painters.push({needs: new Set(reasons.split(' ')), paint, later});

// Reasons: task, view (x, y, colour, scale), filter, pins, theme, size.
function refresh(...reasons) {
  for (const {needs, paint} of painters) if (reasons.some((reason) => needs.has(reason))) paint(reasons);
  remember_place();
}

// Facets that a filter can cut by: every axis, and the front status.
const facet_code = (facet, point) =>
  facet === 'status' ? state.model.states[point] : state.model.axes[facet].codes[point];

// One pass gives both the visible points and, for every facet, how many points each value would leave: a point counts
// for a facet if that facet is the only one, or none, that hides it.
function select_points(context = state.context) {
  const {model} = state;
  const facets = ['status', ...model.axes.keys()];
  const counts = new Map(facets.map((facet) => [facet, new Map()]));
  const active = [...state.filters].filter(([, values]) => values.size);
  const visible = [];
  const add = (facet, point) => {
    const count = counts.get(facet);
    const code = facet_code(facet, point);
    count.set(code, (count.get(code) ?? 0) + 1);
  };
  for (let i = 0; i < model.count; ++i) {
    if (words_at(model.context, i) !== context) continue;
    const hiding = active.filter(([facet, values]) => !values.has(facet_code(facet, i)));
    if (hiding.length === 0) {
      visible.push(i);
      for (const facet of facets) add(facet, i);
    } else if (hiding.length === 1) {
      add(hiding[0][0], i);
    }
  }
  return {visible, counts};
}

let selection = null;
function current_selection(fresh = false) {
  if (fresh || !selection) selection = select_points();
  return selection;
}

const context_points = (context = state.context) =>
  rows_with(state.model.count, (i) => words_at(state.model.context, i) === context);

// The columns that a sweep is judged by: [x, y].
const judged_columns = () => [state.model.column(state.model.head.x), state.model.column(state.model.head.y)];

// The task of the context on show; effects are kept by task.
function current_task() {
  const first = context_points()[0];
  return first === undefined ? '' : words_at(state.model.task, first);
}

const is_narrow = () => window.innerWidth < 640;

function pin(point) {
  const {pins} = state;
  if (!pins.includes(point)) {
    if (pins.length === 4) pins.shift();
    pins.push(point);
  }
  state.panel = point;
  refresh('pins');
}

function unpin(point) {
  state.pins = state.pins.filter((other) => other !== point);
  state.panel = state.pins.at(-1) ?? 'front';
  refresh('pins');
}
