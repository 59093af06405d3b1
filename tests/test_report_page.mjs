// Explores report pages in headless Chromium as a person would: node test_report_page.mjs FOLDER [SCREENSHOTS].
// Exit code 77 with a reason: skipped (no browser or no driver here). The browser runs offline, so a request that the
// page tried would fail as well as being counted.
import {existsSync, mkdirSync, readFileSync} from 'node:fs';
import {resolve} from 'node:path';

const [folder, shots] = process.argv.slice(2).map((path) => resolve(path));
const executable = [
  process.env.CHROMIUM,
  '/usr/bin/chromium-headless-shell', // without the windows of a whole browser: two thirds of its processor time
  '/usr/bin/chromium',
  '/usr/bin/chromium-browser',
  '/usr/bin/google-chrome',
].find((path) => path && existsSync(path));

function skip(reason) {
  console.log(`skipped: ${reason}`);
  process.exit(77);
}
if (!executable) skip('no Chromium (tools/setup.sh installs it, or set CHROMIUM)');
const {chromium} = await import('playwright-core').catch(() => skip('no node_modules/playwright-core (npm ci)'));
if (shots) mkdirSync(shots, {recursive: true});

const browser = await chromium.launch({
  executablePath: executable,
  args: [
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
  ],
});
let failures = 0;
let checks = 0;

function check(good, what) {
  ++checks;
  if (good) return;
  ++failures;
  console.log(`FAILED: ${what}`);
}

// Opens a page, runs `explore`, then asks for silence: no request, no console error, no injected script.
async function visit(name, options, explore) {
  const context = await browser.newContext({viewport: {width: 1280, height: 900}, acceptDownloads: true, ...options});
  await context.setOffline(true);
  await context.grantPermissions(['clipboard-read', 'clipboard-write']).catch(() => {});
  const page = await context.newPage();
  const complaints = [];
  page.on('console', (message) => {
    if (['error', 'warning'].includes(message.type())) complaints.push(message.text());
  });
  page.on('pageerror', (error) => complaints.push(error.stack));
  page.on('dialog', (dialog) => {
    complaints.push('dialog ' + dialog.message());
    dialog.dismiss();
  });
  const url = `file://${folder}/${name}`;
  page.on('request', (request) => {
    if (!request.url().startsWith(url) && !/^(data|blob):/.test(request.url()))
      complaints.push('request ' + request.url());
  });
  // Work, not wall time: on a busy machine the clock says nothing about the page.
  const session = await context.newCDPSession(page);
  await session.send('Performance.enable', {timeDomain: 'threadTicks'});
  const work = async () =>
    Math.round(
      1000 * (await session.send('Performance.getMetrics')).metrics.find(({name: key}) => key === 'ThreadTime').value,
    );
  const begin = Date.now();
  await page.goto(url);
  await page.waitForSelector('html[data-painted]', {timeout: 60000});
  const [first, wall] = [await work(), Date.now() - begin];
  await page.waitForSelector('html[data-painted=all]', {timeout: 60000});
  console.log(
    `${name} at ${page.viewportSize().width}: first paint after ${wall} ms, ${first} ms of work; all after ${
      Date.now() - begin
    } ms`,
  );
  const entered = Date.now();
  try {
    await explore(page, first);
  } catch (error) {
    check(false, `${name}: ${error.stack}`);
  }
  check(complaints.length === 0, `${name}: ${complaints.join('; ')}`);
  check(await page.evaluate(() => window.hacked === undefined), `${name}: a name from the data ran as script`);
  console.log(`  explored for ${Date.now() - entered} ms`);
  await context.close();
}

// The accessibility rules of axe-core, with targets of at least 24 pixels; passed over where it is not installed.
const rules = await import('node:module').then(({createRequire}) => {
  try {
    return readFileSync(createRequire(import.meta.url).resolve('axe-core/axe.min.js'), 'utf8');
  } catch {
    console.log('axe-core is not installed (npm ci): accessibility rules are not checked');
    return '';
  }
});
async function check_accessible(page, place) {
  if (!rules) return;
  await page.evaluate(rules);
  const broken = await page.evaluate(() =>
    window.axe
      .run(document, {rules: {'target-size': {enabled: true}}})
      .then(({violations}) => violations.map(({id, nodes}) => `${id}: ${nodes[0].html.slice(0, 120)}`)),
  );
  check(broken.length === 0, `${place}: ${broken.join('; ')}`);
}

// One chart saved as `kind`: {name, bytes}.
async function saved(page, place, kind) {
  const [file] = await Promise.all([page.waitForEvent('download'), place.locator(`[data-kind=${kind}]`).click()]);
  return {name: file.suggestedFilename(), bytes: readFileSync(await file.path())};
}

// All tasks side by side, curves of two pins in one chart, charts as files, and a link that keeps filters and scales.
async function explore_figures(page) {
  await unfold(page);
  const panels = page.locator('#multiples .multiple');
  check((await panels.count()) === 2, 'both tasks stand side by side');
  const listed = await panels.nth(0).locator('.names li').allTextContents();
  check(/^1 \S/.test(listed[0]) && /^2 \S/.test(listed[1]), `numbered points are named: ${listed[0]}`);
  await page.locator('#panel .entry').nth(1).click();
  await page.locator('.tab button').first().click();
  await page.locator('#panel .entry').nth(3).click();
  const legend = await page.locator('#panel-body .legend').first().textContent();
  check(/B: .*A: /.test(legend), `curves of both pins are overlaid: ${legend}`);
  const chart = page.locator('.export[data-chart=scatter]');
  const svg = (await saved(page, chart, 'svg')).bytes.toString();
  check(svg.startsWith('<svg') && />1 base configuration</.test(svg), 'the SVG names its numbered points');
  check(svg.includes('>on the front<') && svg.includes('>A scale='), 'the SVG has a legend and names the pins');
  const png = (await saved(page, page.locator('.export[data-chart=heat-chart]'), 'png')).bytes;
  check(png.subarray(1, 4).toString() === 'PNG' && png.length > 5000, `the PNG is one: ${png.length} bytes`);
  const csv = (await saved(page, panels.nth(1).locator('.export'), 'csv')).bytes.toString().trim().split('\n');
  check(csv[0].includes('config_hash') && csv.length === 34, `the CSV has the task's points: ${csv.length}`);
  await page.locator('#choose-y-scale').selectOption('log');
  await page.locator('.filter[data-facet="*.*.block"] summary').click();
  await page.locator('.filter[data-facet="*.*.block"] .tick', {hasText: /^16/}).locator('input').check();
  const [link, shown] = [page.url(), await count_of(page)];
  await page.goto('about:blank');
  await page.goto(link);
  await page.waitForSelector('html[data-painted=all]');
  check(shown.includes(' of ') && (await count_of(page)) === shown, `a link keeps the filter: ${shown}`);
  check((await page.locator('#choose-y-scale').inputValue()) === 'log', 'a link keeps the scale');
  check((await page.locator('.tab').count()) === 3, 'a link keeps both pins');
}

const count_of = (page) => page.locator('#shown-count').textContent();

// Where a configuration is drawn, in page pixels: its ring shows while the list's entry is under the mouse; then the
// mouse goes there itself.
async function hover_some_point(page) {
  const box = await page.locator('#scatter').boundingBox();
  for (const entry of await page.locator('#panel .entry').all()) {
    await entry.hover();
    const ring = await page.locator('#scatter .hover-ring').boundingBox();
    if (!ring) continue;
    const spot = [ring.x + ring.width / 2, ring.y + ring.height / 2];
    await page.mouse.move(box.x + 2, box.y + 2);
    await page.mouse.move(...spot);
    if (await page.locator('#scatter .tip').isVisible()) return spot;
  }
  return null;
}

const unfold = (page) => page.locator('#choices').evaluate((node) => (node.open = true));

async function explore_fully(page) {
  await unfold(page);
  // Front list, hover, click.
  const listed = await page.locator('#panel > .panel-body > div > ul > li > .entry').count();
  const drawn = (await page.locator('#scatter').getAttribute('aria-label')).match(/(\d+) on the line/)?.[1];
  check(Number(drawn) === listed, `the chart draws the front of the list: ${drawn} of ${listed}`);
  check((await page.locator('#panel .entry').count()) > 3, 'the front is listed');
  const spot = await hover_some_point(page);
  check(spot !== null, 'hovering finds a point');
  const tip = await page.locator('#scatter .tip').textContent();
  check(/overhead/.test(tip) && /loss gap/.test(tip), `tip shows both columns: ${tip}`);
  await page.mouse.click(...spot);
  check(
    await page
      .locator('.tab.current')
      .textContent()
      .then((text) => text.includes('Pin A')),
    'a click pins the point',
  );
  check(
    (await page.locator('#curve-chart canvas').count()) === 1 ||
      (await page.locator('#panel').textContent()).includes('Not stored on this page'),
    'loss curves are drawn',
  );
  check(
    /^fp4sim train --task \w+ .*--seed \d+$/.test(await page.locator('#command').textContent()),
    'the command names a seed',
  );
  await page.locator('#copy-command').click();
  const command = await page.locator('#command').textContent();
  const copied = await page
    .waitForFunction((text) => navigator.clipboard.readText().then((found) => found === text), command, {
      timeout: 10000,
    })
    .then(
      () => true,
      () => false,
    );
  check(copied, 'the command is copied');
  await page.locator('.full-config summary').click();
  check(
    (await page.locator('.full-config pre').textContent()).includes('steps: 400'),
    'the full configuration is shown',
  );
  await page.locator('.tab .close').click();
  check((await page.locator('.tab').count()) === 1, 'unpinning closes the tab');
  // Filter by an axis value, with counts that add up.
  const all = await count_of(page);
  await page.locator('.filter[data-facet="*.*.block"] summary').click();
  const tick = page.locator('.filter[data-facet="*.*.block"] .tick', {hasText: /^16/});
  const expected = (await tick.locator('.count').textContent()).trim();
  await tick.locator('input').check();
  check(
    (await count_of(page)).startsWith(expected + ' of'),
    `the filter leaves what its count said (${expected}, ${await count_of(page)})`,
  );
  await page.keyboard.press('Escape');
  // Table: search, sort, download.
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#download').click()]);
  const lines = readFileSync(await download.path(), 'utf8')
    .trim()
    .split('\n');
  check(lines.length - 1 === Number(expected.replace(/\D/g, '')), 'the CSV has the rows of the selection');
  check(
    lines[0].includes('config_hash') && lines[0].includes('loss_gap_low') && lines[0].includes('wgrad.*.rounding'),
    'the CSV has its columns',
  );
  const hash = await page.locator('#table-scroll tbody tr').first().locator('td').last().textContent();
  await page.locator('#search').fill(hash);
  check((await page.locator('#table-count').textContent()).includes('of 1 configuration'), 'a hash finds one row');
  await page.locator('#search').fill('');
  await page.locator('#table-scroll th button', {hasText: 'overhead'}).first().click();
  const overheads = await page.locator('#table-scroll tbody tr').evaluateAll((rows) => {
    const at = [...document.querySelectorAll('#table-scroll th')].findIndex((head) =>
      head.textContent.startsWith('overhead'),
    );
    return rows.map((row) => parseFloat(row.children[at].textContent));
  });
  check(
    overheads.every((value, k) => k === 0 || value >= overheads[k - 1]),
    'sorting by overhead sorts',
  );
  await page.locator('#clear-filters').click();
  check((await count_of(page)) === all, 'clearing the filters shows everything');
  // Other axes, colours, tasks.
  await page.locator('#choose-x').selectOption('step_time_s');
  await page.locator('#choose-y').selectOption('loss');
  await page.locator('#choose-colour').selectOption('axis wgrad.hadamard.size');
  check(
    (await page.locator('#legend').textContent()).includes('front by means'),
    'another view shows its front by means',
  );
  check((await page.locator('#legend').textContent()).includes('128'), 'the legend names the colours');
  await page.locator('#choose-colour').selectOption('energy_j');
  await page.locator('#choose-intervals').selectOption('all');
  await page.locator('#choose-x').selectOption('overhead');
  await page.locator('#choose-y').selectOption('loss_gap');
  await page.locator('#heat-value').selectOption('count');
  await page.locator('#heat-a').selectOption('layers');
  await page.locator('#theme').click();
  // Keyboard alone.
  await page.locator('#scatter').focus();
  for (const key of ['ArrowRight', 'ArrowRight', 'ArrowDown', 'End', 'ArrowLeft']) await page.keyboard.press(key);
  check((await page.locator('#scatter-live').textContent()).includes('seeds'), 'the keyboard reads points out');
  await page.keyboard.press('Enter');
  check((await page.locator('.tab').count()) === 2, 'Enter pins');
  // Drag zoom and back.
  const box = await page.locator('#scatter').boundingBox();
  await page.mouse.move(box.x + box.width * 0.2, box.y + box.height * 0.3);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + box.height * 0.7, {steps: 4});
  await page.mouse.up();
  check((await page.locator('.tab').count()) === 2, 'the end of a drag pins nothing');
  await page.locator('#zoom button', {hasText: 'Show all'}).click();
  await page.locator('#zoom button', {hasText: 'Zoom to front'}).click();
}

await visit('nice.html', {}, async (page, first) => {
  check(first < 2000, `first paint takes ${first} ms of work`);
  await check_accessible(page, 'light, 1280');
  if (shots) await page.screenshot({path: `${shots}/light_1280.png`, fullPage: true});
  await explore_fully(page);
  await page.locator('#panel .tabs button').first().click();
  await page.locator('#panel .entry').nth(2).click();
  check((await page.locator('#curve-chart canvas').count()) === 1, 'the front has loss curves');
  const link = page.url();
  check(/#.*pin=[0-9a-f]{16}/.test(link), 'the address keeps the pin');
  await page.goto('about:blank');
  await page.goto(link);
  await page.waitForSelector('html[data-painted=all]');
  check((await page.locator('.tab.current').textContent()).includes('Pin'), 'a link opens on its pin');
  for (let left = await page.locator('.tab .close').count(); left > 0; --left)
    await page.locator('.tab .close').first().click();
  await explore_figures(page);
  await page.locator('.full-config summary').click();
  check(await page.locator('#choices').evaluate((node) => node.open), 'a link that filters shows the filters');
  await page.locator('.filter summary').first().click();
  await check_accessible(page, 'light, 1280, pins and menus open');
  await page.keyboard.press('Escape');
  const pinned = page.url().match(/pin=([0-9a-f+]*)/)[1];
  await page.locator('#tasks button', {hasText: 'lm'}).click();
  check((await page.locator('#explore-intro').textContent()).includes('lm'), 'the task changes');
  const there = page.url().match(/pin=([0-9a-f+]*)/)?.[1];
  check(there?.length === pinned.length && there !== pinned, `pins survive a change of task: ${pinned}, ${there}`);
  await page.locator('#tasks button', {hasText: 'classifier'}).click();
  check(page.url().includes(pinned), 'and come back with it');
});
await visit('nice.html', {colorScheme: 'dark'}, async (page) => {
  if (shots) await page.screenshot({path: `${shots}/dark_1280.png`, fullPage: true});
  check(
    (await page.evaluate(() => document.documentElement.dataset.theme)) === 'dark',
    'the dark theme follows the system',
  );
  await check_accessible(page, 'dark, 1280');
});
for (const name of ['nice.html', 'large.html'])
  await visit(name, {viewport: {width: 390, height: 844}, hasTouch: true, isMobile: true}, async (page) => {
    check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), 'nothing sticks out at 390 pixels');
    if (name === 'nice.html') await check_accessible(page, 'light, 390');
    await page.locator('#panel .entry').first().tap();
    check(
      await page
        .locator('.tab.current')
        .textContent()
        .then((text) => text.includes('Pin A')),
      'a tap pins',
    );
    if (shots) await page.screenshot({path: `${shots}/${name}_390.png`, fullPage: true});
  });
await visit('small.html', {}, async (page) => {
  check(
    (await page.locator('h1 img').count()) === 0 && (await page.locator('h1').textContent()).startsWith('<img src=x'),
    'the title is text',
  );
  check(
    (await page.locator('footer').textContent()).includes('<script>window.hacked=5</script>'),
    'provenance is text',
  );
  await unfold(page);
  await page.locator('#choose-colour').selectOption('axis wgrad.*.rounding');
  for (const entry of await page.locator('#panel .entry').all()) await entry.hover();
  await hover_some_point(page);
  await page.locator('#panel .entry').nth(1).click();
  await page.locator('#search').fill('bold');
  check((await page.locator('#table-scroll').textContent()).includes('<b onmouseover'), 'a recipe name is text');
  for (const chart of ['#effects-chart', '#cost-chart', '#heat-chart']) {
    await page.locator(chart).scrollIntoViewIfNeeded();
    const box = await page.locator(chart).boundingBox();
    for (let x = 0.1; x < 1; x += 0.1) await page.mouse.move(box.x + box.width * x, box.y + box.height * 0.4);
  }
});
await visit('beside.html', {}, async (page) => {
  await page.locator('#tasks button', {hasText: 'lm'}).click();
  check((await page.locator('#answer-text').textContent()).includes('<b>one</b>'), 'the answer of a task is text');
  await page.locator('#tasks button', {hasText: 'classifier'}).click();
  check((await page.locator('#answer-text').textContent()).startsWith('At 4 %'), 'the page begins with the answer');
  check(/1 of 33/.test(await page.locator('#summary').textContent()) === false, 'the first chip has its own front');
  await page.locator('#choose-chip').selectOption('B200');
  check(/On the front1 of 33/.test(await page.locator('#summary').textContent()), 'the other chip has another front');
  check((await page.locator('#subtitle').textContent()).includes('on B200'), 'the other chip is named');
  check((await page.locator('#answer-text').textContent()).startsWith('At 9 %'), 'the other chip has its answer');
  const colours = (place) =>
    page.locator(`${place} .key:has(.swatch)`).evaluateAll((keys) =>
      Object.fromEntries(keys.map((key) => [key.textContent, key.firstChild.style.background])),
    );
  await page.locator('#panel .entry').first().click();
  const [section, details] = [await colours('#cost-legend'), await colours('#panel-body .legend')];
  check(
    Object.keys(details).filter((name) => section[name] && section[name] === details[name]).length > 3,
    `a part of the cost has one colour: ${JSON.stringify([section, details])}`,
  );
  check(/#.*chip=B200/.test(page.url()), 'the address keeps the chip');
  const link = page.url();
  await page.goto('about:blank');
  await page.goto(link);
  await page.waitForSelector('html[data-painted=all]');
  check((await page.locator('#choose-chip').inputValue()) === 'B200', 'a link opens on its chip');
  await page.locator('#choose-chip').selectOption('MI355X');
  const against = await page.locator('#against').textContent();
  check(against.includes('Against other_sweep') && against.includes('3 of 33'), `three are in both: ${against}`);
  check(/lower there 1/.test(against) && /higher there 1/.test(against) && /same bits 1/.test(against), against);
  const csv = (await saved(page, page.locator('.export[data-chart=against-chart]'), 'csv')).bytes.toString();
  check(csv.trim().split('\n').length === 4, 'the CSV has the three');
  check((await page.locator('#forest .multiple').count()) === 1, 'the study has one task');
  const svg = (await saved(page, page.locator('#forest .export'), 'svg')).bytes.toString();
  check(svg.includes('One product, all others bf16') && svg.includes('>Dgrad<'), 'the forest names its rows');
  await check_accessible(page, 'beside another sweep');
  if (shots) await page.screenshot({path: `${shots}/beside_1280.png`, fullPage: true});
});
// The first screen answers the question: the sentence and the whole chart, of a laptop and of a phone.
for (const [width, height] of [
  [1440, 900],
  [390, 844],
])
  await visit('beside.html', {viewport: {width, height}}, async (page) => {
    await page.locator('#tasks button', {hasText: 'classifier'}).click();
    const bottom = async (place) => {
      const box = await page.locator(place).boundingBox();
      return box.y + box.height;
    };
    const [answer, chart] = [await bottom('#answer-text'), await bottom('#scatter')];
    check(answer < 0.3 * height && chart <= height, `${width}: the answer ends at ${answer}, the chart at ${chart}`);
    check(!(await page.locator('#controls').isVisible()), `${width}: the controls are folded`);
    check(!(await page.locator('#answer-table').isVisible()), `${width}: nine axes make no table`);
  });
// Two axes of few values: names, colours and a table by the values, on the first screen.
for (const [width, height] of [
  [1440, 900],
  [390, 844],
])
  await visit('few.html', {viewport: {width, height}}, async (page) => {
    const table = page.locator('#answer-table');
    const words = await table.textContent();
    check(['nearest_even', 'stochastic', 'e8m0', 'ue4m3', 'ue5m3'].every((word) => words.includes(word)), words);
    check((await table.locator('tbody td').count()) === 6, 'a cell for each pair of values');
    check((await table.locator('b').count()) === 1, 'the best mean is bold');
    const [cells, chart] = [await table.boundingBox(), await page.locator('#scatter').boundingBox()];
    check(cells.y + cells.height < chart.y, `${width}: the table stands above the chart`);
    check(chart.y + chart.height <= height, `${width}: the chart ends at ${chart.y + chart.height}`);
    const legend = await page.locator('#legend').textContent();
    check(/(scale|rounding):/.test(legend), `${width}: coloured by an axis: ${legend}`);
    const keys = await page.locator('#legend .key').allTextContents();
    check(new Set(keys).size === keys.length, `${width}: no key twice: ${keys}`);
    check(page.url().endsWith('few.html'), `${width}: the usual view needs no words: ${page.url()}`);
    const svg = (await saved(page, page.locator('.export[data-chart=scatter]'), 'svg')).bytes.toString();
    check(!svg.includes('base configuration'), `${width}: no point is only a base`);
    check(/>(1 )?\w+, (nearest_even|stochastic)</.test(svg), `${width}: points carry their values`);
    check((await page.locator('#answer').textContent()).includes('Overhead: '), 'the columns are explained');
    check(await page.evaluate((w) => document.documentElement.scrollWidth <= w, width), `${width}: nothing sticks out`);
    if (width > 1000) await check_accessible(page, 'few');
  });
// Sweeps with little in them: nothing to show is said, and nothing breaks.
for (const name of ['one.html', 'fallen.html'])
  await visit(name, {viewport: {width: 390, height: 844}}, async (page) => {
    check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), `${name}: nothing sticks out`);
    await page.locator('.pin-button').first().click();
    check((await page.locator('.tab').count()) === 2, `${name}: a point without a place can be pinned from the table`);
    if (shots) await page.screenshot({path: `${shots}/${name}_390.png`, fullPage: true});
  });
let work_without_points = 0; // the yardstick of this machine
await visit('empty.html', {}, async (page, first) => {
  work_without_points = first;
  check((await page.locator('#failure').textContent()).includes('no configuration'), 'an empty sweep says so');
});
await visit('undecided.html', {}, async (page) => {
  check(
    (await page.locator('#summary').textContent()).includes('none for certain'),
    'a front that no test supports is called that',
  );
  check((await page.locator('#panel .entry').count()) > 3, 'the best means among the undecided are listed');
});
for (const name of ['baseline_undecided.html', 'baseline_off.html'])
  await visit(name, {}, async (page) => {
    const summary = await page.locator('#summary').textContent();
    check(/On the front1 of /.test(summary) && summary.includes('Only bf16'), `${name}: the front is bf16: ${summary}`);
    check(summary.includes('What the best candidates cost'), `${name}: the card shows candidates: ${summary}`);
    check(/cheapest.*most accurate/.test(summary), `${name}: the card names two of them: ${summary}`);
    await page.locator('#cost-chart').scrollIntoViewIfNeeded();
    const section = await page.locator('#costs').textContent();
    check(
      section.includes('What the best candidates cost') && section.includes('best candidates, the baselines'),
      `${name}: the bars are said to be of candidates: ${section}`,
    );
    if (shots) await page.screenshot({path: `${shots}/${name}.png`, fullPage: true});
  });
await visit('screening.html', {}, async (page) => {
  check((await page.locator('#summary').textContent()).includes('screening only'), 'a screening is called one');
});
await visit('runs.html', {}, async (page) => {
  await page.locator('#table-controls button', {hasText: 'Runs'}).click();
  const [download] = await Promise.all([page.waitForEvent('download'), page.locator('#download').click()]);
  const lines = readFileSync(await download.path(), 'utf8')
    .trim()
    .split('\n');
  check(lines.length === 1 + 4 * 2500 + 15, `the CSV has one line per run of the task: ${lines.length}`);
  check(lines[0].includes('digest') && lines[0].includes('seed'), 'runs have seed and digest');
});
// What `fp4sim serve --out` writes.
await visit('service.html', {}, async (page) => {
  const charts = page.locator('#main canvas');
  check((await charts.count()) === 3, `a service has three charts: ${await charts.count()}`);
  check((await page.locator('#latency h2').textContent()) === 'Latency by percentile', 'latencies have a section');
  const csv = (await saved(page, page.locator('#latency .export'), 'csv')).bytes.toString();
  check(csv === 'policy,p50_ms,p95_ms,p99_ms\nfull,2,6,40\ninfaas,1,2,3\n', `latencies as CSV: ${csv}`);
  const svg = (await saved(page, page.locator('#cost .export'), 'svg')).bytes.toString();
  check(svg.includes('>infaas<') && svg.includes('US dollars'), 'the SVG names policies and the axis');
  await check_accessible(page, 'service');
  await page.locator('#theme').click();
  check((await charts.count()) === 3, 'the dark theme draws the same charts');
  if (shots) await page.screenshot({path: `${shots}/service_1280.png`, fullPage: true});
});
await visit('votes.html', {viewport: {width: 390, height: 844}}, async (page) => {
  check(await page.evaluate(() => document.documentElement.scrollWidth <= 390), 'votes: nothing sticks out');
  const csv = (await saved(page, page.locator('#cost .export'), 'csv')).bytes.toString();
  check(csv.trim().split('\n').length === 4 && csv.includes('a,2,0.7,0.7,0.75,6'), `votes as CSV: ${csv}`);
});
await visit('large.html', {}, async (page, first) => {
  check(
    first < 16 * work_without_points, // 8 here: work that grows with the square of the points is a hundred times more
    `first paint of 20,000 points takes ${first} ms of work, that of none ${work_without_points} ms`,
  );
  await explore_fully(page);
  if (shots) await page.screenshot({path: `${shots}/large_1280.png`, fullPage: true});
});
await browser.close();
console.log(`${checks} checks, ${failures} failed`);
process.exit(failures ? 1 : 0);
