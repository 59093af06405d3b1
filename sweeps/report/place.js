// The place is kept behind '#', so that a link opens the page on a view:
//   #chip=B200&context=lm&x=overhead&y_scale=log&pin=HASH&filter=wgrad.*.rounding:stochastic&filter=status:on

const place_words = {
  x_scale: ['auto', 'linear', 'log'],
  y_scale: ['auto', 'linear', 'log'],
  intervals: ['front', 'all', 'none'],
};

const facet_name = (facet) => (facet === 'status' ? 'status' : state.model.axes[facet].name);
const facet_word = (facet, code) => (facet === 'status' ? code : state.model.axes[facet].values[code]);

function remember_place() {
  const words = new URLSearchParams();
  const {model} = state;
  if (model.head.chip !== state.pack.head.chip) words.set('chip', model.head.chip);
  if (model.context.values.length > 1) words.set('context', state.context);
  if (state.x !== model.head.x) words.set('x', state.x);
  if (state.y !== model.head.y) words.set('y', state.y);
  for (const [key, accepted] of Object.entries(place_words)) if (state[key] !== accepted[0]) words.set(key, state[key]);
  if (state.colour !== state.usual_colour) words.set('colour', state.colour);
  if (state.pins.length) words.set('pin', state.pins.map((i) => model.hash[i]).join(' '));
  for (const [facet, codes] of state.filters)
    for (const code of codes) words.append('filter', `${facet_name(facet)}:${facet_word(facet, code)}`);
  const text = words.toString();
  try {
    history.replaceState(null, '', text ? '#' + text : location.pathname + location.search);
  } catch {
    // Some browsers refuse this for files on disk; the page works without.
  }
}

// 'wgrad.*.rounding:stochastic' ticks that value; words that this sweep does not have are passed over.
function recall_filter(text) {
  const at = text.lastIndexOf(':');
  const [name, word] = [text.slice(0, at), text.slice(at + 1)];
  const facet = name === 'status' ? name : state.model.axes.findIndex((axis) => axis.name === name);
  const code =
    facet === 'status'
      ? state_order.includes(word)
        ? word
        : -1
      : (state.model.axes[facet]?.values.indexOf(word) ?? -1);
  if (code === -1) return;
  if (!state.filters.has(facet)) state.filters.set(facet, new Set());
  state.filters.get(facet).add(code);
}

// Colour by the axis that does most, where points are named by their axes.
function choose_usual_colour() {
  const naming = naming_axes(state.model, state.context);
  const first = effect_groups(current_task()).find((group) => naming.some((axis) => axis.name === group.name));
  state.colour = state.usual_colour = naming.length ? `axis ${first?.name ?? naming[0].name}` : 'status';
}

function recall_place() {
  const words = new URLSearchParams(location.hash.slice(1));
  const chip = chip_names(state.pack).indexOf(words.get('chip'));
  if (chip > 0) state.model = chip_model(state.pack, chip);
  const {model} = state;
  if (model.context.values.includes(words.get('context'))) state.context = words.get('context');
  for (const key of ['x', 'y']) if (model.column(words.get(key))) state[key] = words.get(key);
  for (const [key, accepted] of Object.entries(place_words))
    if (accepted.includes(words.get(key))) state[key] = words.get(key);
  for (const hash of (words.get('pin') ?? '').split(' ')) {
    if (!model.index_of.has(hash) || state.pins.length === 4) continue;
    state.pins.push(model.index_of.get(hash));
    state.panel = state.pins.at(-1);
    state.context = words_at(model.context, state.panel);
  }
  choose_usual_colour();
  const colour = words.get('colour');
  if (
    colour === 'status' ||
    (colour && (model.column(colour) || (colour.startsWith('axis ') && model.axis(colour.slice(5)))))
  )
    state.colour = colour;
  for (const text of words.getAll('filter')) recall_filter(text);
}
