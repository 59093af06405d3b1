// Colours of both themes, as the only source: they become CSS variables for the page and are read by the charts.
// Categories use the palette of Okabe and Ito (2008), made for all common forms of colour blindness, with yellow
// darkened on white; `parts` of a cost are more; sequences use viridis. Front status is told apart by shape too, never
// by colour alone.

const themes = {
  light: {
    background: '#f6f7f9',
    card: '#ffffff',
    raised: '#ffffff',
    ink: '#1b2129',
    quiet: '#5a6572',
    line: '#dfe3e8',
    strong_line: '#b7bfc9',
    accent: '#0b62a8',
    accent_ink: '#ffffff',
    wash: '#e8f1f9',
    warn: '#fff3d6',
    warn_ink: '#5c4300',
    shadow: '0 1px 2px rgba(20,30,45,.07), 0 4px 16px rgba(20,30,45,.05)',
    categories: ['#0072b2', '#d55e00', '#009e73', '#cc79a7', '#b58900', '#56b4e9', '#7a4fb0', '#6b7280'],
    parts: [
      '#0072b2',
      '#56b4e9',
      '#b58900',
      '#009e73',
      '#7a4fb0',
      '#9aa3ad',
      '#d55e00',
      '#cc79a7',
      '#882255',
      '#44aa99',
      '#8c6d31',
      '#3b3b98',
    ],
    states: {
      on: '#0072b2',
      tied: '#4f9fd0',
      undecided: '#c46200',
      screening: '#8a3ffc',
      candidate: '#a58bd0',
      off: '#8d97a3',
      diverged: '#b3261e',
    },
    better: '#00795a',
    worse: '#b84a00',
    neutral: '#6b7280',
    empty: '#eef0f3',
  },
  dark: {
    background: '#10151b',
    card: '#181f27',
    raised: '#202934',
    ink: '#e7ecf1',
    quiet: '#9aa7b4',
    line: '#2b3541',
    strong_line: '#4a5765',
    accent: '#62b1f0',
    accent_ink: '#0b1219',
    wash: '#1d2f40',
    warn: '#3a2f12',
    warn_ink: '#f3d998',
    shadow: '0 1px 2px rgba(0,0,0,.4)',
    categories: ['#4aa8e8', '#f08a4b', '#2fc79a', '#e3a0c6', '#e0bb3a', '#9ad7ff', '#b99af0', '#9aa7b4'],
    parts: [
      '#4aa8e8',
      '#9ad7ff',
      '#e0bb3a',
      '#2fc79a',
      '#b99af0',
      '#6f7c8a',
      '#f08a4b',
      '#e3a0c6',
      '#d06a94',
      '#7fd6cb',
      '#c9a66b',
      '#8f93ff',
    ],
    states: {
      on: '#4aa8e8',
      tied: '#2f7fb8',
      undecided: '#f2a33c',
      screening: '#b99af0',
      candidate: '#8d7bb8',
      off: '#6f7c8a',
      diverged: '#ff8a80',
    },
    better: '#2fc79a',
    worse: '#f08a4b',
    neutral: '#9aa7b4',
    empty: '#222b35',
  },
};

const viridis = [
  '#440154',
  '#482878',
  '#3e4a89',
  '#31688e',
  '#26828e',
  '#1f9e89',
  '#35b779',
  '#6ece58',
  '#b5de2b',
  '#fde725',
];

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

const state_words = {
  on: 'on the front',
  tied: 'tied with the front',
  undecided: 'undecided',
  screening: 'screened front',
  candidate: 'near the front',
  off: 'off the front',
  diverged: 'diverged',
  failed: 'failed',
};
const state_order = ['on', 'tied', 'undecided', 'screening', 'candidate', 'off', 'diverged', 'failed'];

// Symbols of the chart library, and their sizes; the cross is a path in a 10 x 10 box.
const cross = 'path://M0,1.5L1.5,0L5,3.5L8.5,0L10,1.5L6.5,5L10,8.5L8.5,10L5,6.5L1.5,10L0,8.5L3.5,5Z';
const symbols = {
  on: 'diamond',
  tied: 'diamond',
  undecided: 'triangle',
  screening: 'rect',
  candidate: 'rect',
  off: 'circle',
  diverged: cross,
  failed: cross,
};
const symbol_sizes = {on: 15, tied: 10, undecided: 12, screening: 10, candidate: 6, off: 6, diverged: 8, failed: 8};

const svg_shapes = {
  on: 'M7 0.5L13.5 7L7 13.5L0.5 7Z',
  tied: 'M7 2.5L11.5 7L7 11.5L2.5 7Z',
  undecided: 'M7 1.5L13 12.5L1 12.5Z',
  screening: 'M2 2H12V12H2Z',
  candidate: 'M4 4H10V10H4Z',
  off: 'M7 3.6a3.4 3.4 0 1 0 .001 0Z',
  diverged: 'M2 3.5L3.5 2L7 5.5L10.5 2L12 3.5L8.5 7L12 10.5L10.5 12L7 8.5L3.5 12L2 10.5L5.5 7Z',
  failed: 'M2 3.5L3.5 2L7 5.5L10.5 2L12 3.5L8.5 7L12 10.5L10.5 12L7 8.5L3.5 12L2 10.5L5.5 7Z',
};

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
