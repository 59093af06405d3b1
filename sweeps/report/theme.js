// Colours of both themes, as the only source (themes.json): they become CSS variables for the page and are read by the
// charts. Categories use the palette of Okabe and Ito (2008), made for all common forms of colour blindness, with yellow
// darkened on white; `parts` of a cost are more; sequences use viridis. Front status is told apart by shape too, never
// by colour alone: `symbol` and `size` are those of the chart library, `shape` a path in a 14 x 14 box. `fronts`: what each
// kind of front is called.

const {viridis, states: state_rows, fronts: front_kinds, ...themes} = theme_data;
const by_state = (field) => Object.fromEntries(state_rows.map((state) => [state.name, state[field]]));
const state_order = state_rows.map((state) => state.name);
const [state_words, symbols, symbol_sizes, svg_shapes] = ['words', 'symbol', 'size', 'shape'].map(by_state);

// t in [0, 1]; the ends are cut off where they would vanish on the theme's background.
function sequence_colour(t, dark) {
  const place = dark ? 0.18 + 0.82 * t : 0.9 * t;
  const index = Math.min(Math.max(place, 0), 1) * (viridis.length - 1);
  const left = Math.min(Math.floor(index), viridis.length - 2);
  const mix = (k) => {
    const at = (colour) => parseInt(colour.slice(1 + 2 * k, 3 + 2 * k), 16);
    return Math.round(at(viridis[left]) + (index - left) * (at(viridis[left + 1]) - at(viridis[left])));
  };
  return `rgb(${mix(0)},${mix(1)},${mix(2)})`;
}

// Black or white, whichever reads better on an rgb(...) colour (ITU-R BT.601 luma).
function ink_on(colour) {
  const [r, g, b] = colour.match(/\d+/g).map(Number);
  return 0.299 * r + 0.587 * g + 0.114 * b > 140 ? '#10151b' : '#ffffff';
}

// The same shapes for text, lists and legends.
function state_icon(state, colour) {
  const space = 'http://www.w3.org/2000/svg';
  const svg = document.createElementNS(space, 'svg');
  svg.setAttribute('viewBox', '0 0 14 14');
  svg.setAttribute('class', 'icon');
  svg.setAttribute('aria-hidden', 'true');
  const path = document.createElementNS(space, 'path');
  path.setAttribute('d', svg_shapes[state]);
  path.setAttribute('fill', colour ?? `var(--state-${state === 'failed' ? 'diverged' : state})`);
  svg.append(path);
  return svg;
}

function swatch(colour, wide = false) {
  const node = h('span', {class: wide ? 'swatch wide' : 'swatch', 'aria-hidden': 'true'});
  node.style.background = colour;
  return node;
}

function apply_theme(name) {
  const root = document.documentElement;
  root.dataset.theme = name;
  root.style.colorScheme = name;
  for (const [key, value] of Object.entries(themes[name]))
    if (typeof value === 'string') root.style.setProperty('--' + key.replaceAll('_', '-'), value);
  for (const [key, value] of Object.entries(themes[name].states)) root.style.setProperty('--state-' + key, value);
}
