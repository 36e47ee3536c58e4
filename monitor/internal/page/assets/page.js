// The page: it listens to samples, keeps their history, and shows them.

import { Chart } from './chart.js';
import { color, onTheme } from './colors.js';
import { $, bar, fill, make, marked, table, text, titled } from './dom.js';
import { age, bytes, clock, count, digits, figure, grouped, percent, rate } from './format.js';
import { History } from './history.js';
import { Leaks } from './leaks.js';
import { MemoryMap } from './map.js';
import { Timeline } from './timeline.js';

const state = {
  history: new History(),
  last: null, // the latest sample
  device: '', // that is shown
  window: 60, // seconds
  paused: false,
  shown: 0, // the time that the page shows, when it is paused
  pointed: -1,
};

// --- connection

let events = null;
let heard = Date.now();
let ended = false;
let waiting = null; // samples that came before the history

function connect() {
  events?.close();
  events = new EventSource('api/events');
  events.addEventListener('open', async () => {
    ended = false;
    const since = waiting = [];
    try {
      const answer = await fetch('api/history');
      if (answer.ok && since === waiting) state.history = History.load(await answer.json());
    } catch { /* the connection was lost again */ }
    if (since !== waiting) return; // and made anew
    waiting = null;
    for (const s of since) keep(s);
    schedule();
  });
  events.addEventListener('sample', (e) => {
    heard = Date.now();
    const s = JSON.parse(e.data);
    state.last = s;
    if (waiting) waiting.push(s);
    else keep(s);
    status('live', state.paused ? 'Paused' : 'Live');
    alerts(s.devices.filter((d) => d.error).map((d) => `${d.device}: ${d.error}`));
    schedule();
  });
  events.addEventListener('failure', (e) => {
    alerts([`No figures: ${JSON.parse(e.data).error}.`]);
    status('lost', 'No figures');
  });
  events.addEventListener('end', () => { ended = true; });
  events.addEventListener('error', () => {
    status('lost', ended ? 'The process has ended' : 'Disconnected');
    if (events.readyState === EventSource.CLOSED) setTimeout(connect, 2000); // else it tries again itself
  });
}

const keep = (s) => state.history.add(Date.parse(s.measured_at), s.values);

function status(kind, words) {
  $('state').dataset.state = kind;
  text($('status'), words);
  since();
}

function since() {
  const lost = $('state').dataset.state === 'lost';
  text($('since'), lost ? 'for ' + age((Date.now() - heard) / 1000) + '; trying again' : '');
}

function alerts(list) {
  const key = list.join('\n');
  if ($('alerts').dataset.key === key) return;
  $('alerts').dataset.key = key;
  $('alerts').replaceChildren(...list.map((s) => make('p', 'alert', s)));
}

// --- drawing

let scheduled = false;
let drawn = 0;

// schedule draws soon: five times a second are enough, but for who points at something.
function schedule(now) {
  if (scheduled && now !== true || document.hidden) return;
  scheduled = true;
  setTimeout(() => requestAnimationFrame(() => {
    scheduled = false;
    drawn = performance.now();
    if (state.last) render();
  }), now === true ? 0 : Math.max(0, drawn + 200 - performance.now()));
}

const matches = (device) => device.split(',').includes(state.device);

function chooseDevices(s) {
  const found = new Set();
  for (const list of [s.snapshot.vram, s.snapshot.loader, s.snapshot.transfer, s.snapshot.pinned, s.snapshot.tier, s.snapshot.foreign]) {
    for (const x of list ?? []) x.device.split(',').forEach((d) => found.add(d));
  }
  const all = [...found].sort();
  if (!all.includes(state.device)) state.device = all[0] ?? '';
  const key = JSON.stringify(all);
  if ($('device').dataset.key !== key) {
    $('device').dataset.key = key;
    $('device').replaceChildren(...all.map((d) => new Option(d, d)));
  }
  $('device').value = state.device;
  $('devices').hidden = all.length < 2;
}

// names says how names of values are shown, and colorOf in what colour.
const names = { free: 'free in pools', pending: 'freed, still in use', loader: "loaders' batches" };

const order = ['weights', 'gradients', 'optimizer', 'activations', 'kvcache', 'batch', 'workspace', 'staging', 'other', 'loader'];
const rank = (name) => name === 'free' ? 99 : name === 'pending' ? 98 : order.includes(name) ? order.indexOf(name) : 50;

const views = {
  memory: { chart: 'device_bytes', stack: true, binary: true, format: bytes, head: 'Purpose' },
  pinned: { chart: 'pinned_bytes', stack: true, binary: true, format: bytes, head: 'State' },
  link: { chart: 'link_bytes_per_s', format: rate, head: 'Direction and path' },
  tier: { chart: 'tier_bytes', stack: true, binary: true, format: bytes, head: 'Tier' },
  tiermoves: { chart: 'tier_bytes_per_s', format: rate, head: 'Move' },
  loader: { chart: 'stage_busy', format: digits, head: 'Stage' },
};

for (const [id, v] of Object.entries(views)) {
  v.section = $(id);
  v.sum = v.section.querySelector('.sum');
  v.table = v.section.querySelector('table');
  v.plot = new Chart(v.section.querySelector('.chart'), {
    ...v,
    pointed: (i) => {
      if (v.pointed === i) return;
      v.pointed = i;
      schedule(true);
    },
  });
  v.pointed = -1;
}

const sum = (list, of) => (list ?? []).filter((x) => matches(x.device)).reduce((n, x) => n + of(x), 0);
const value = (s, chart, name) => s.values.filter((v) => v.chart === chart && matches(v.device) && (name === undefined || v.name === name)).reduce((n, v) => n + v.value, 0);
const has = (list, of) => (list ?? []).some((x) => matches(x.device) && of(x) > 0);

function render() {
  const s = state.last, h = state.history;
  chooseDevices(s);
  const snap = s.snapshot;
  text($('process'), `${snap.command} · process ${snap.pid} · ${snap.version}`);
  document.title = `${snap.command} · Pinion`;
  if (!state.paused) state.shown = Math.max(h.latest, Date.parse(s.measured_at));
  tiles(s);
  const unused = [];
  const show = (id, there, words) => {
    views[id].section.hidden = !there;
    if (!there && words) unused.push(words);
    return there;
  };
  const to = state.shown, from = to - state.window * 1000;
  for (const [id, v] of Object.entries(views)) {
    v.data = h.select(v.chart, matches, from);
    v.data.columns.sort((a, b) => rank(a.name) - rank(b.name));
    if (id !== 'loader' && id !== 'link') v.data.columns = v.data.columns.filter((c) => c.values.some((x) => x > 0));
  }
  const any = (id) => views[id].data.columns.length > 0;
  if (show('memory', any('memory') || has(snap.vram, (x) => x.pools), 'pools of device memory')) series('memory', from, to);
  if (show('link', any('link') || has(snap.transfer, (x) => x.engines), 'transfer engines')) series('link', from, to, linkRow(snap));
  if (show('pinned', any('pinned') || has(snap.pinned, (x) => x.pools), 'pools of pinned memory')) series('pinned', from, to);
  if (show('tier', any('tier') || has(snap.tier, (x) => x.stores), 'tiers')) series('tier', from, to);
  if (show('tiermoves', any('tiermoves'))) series('tiermoves', from, to);
  if (show('loader', any('loader') && has(snap.loader, (x) => 1), 'loaders')) stages(s, from, to);
  layout();
  sums(s);
  text($('kept'), `This page has ${count(h.points, 'point')} of it.`);
  text($('unused'), unused.length ? 'Not in use here: ' + unused.join(', ') + '.' : '');
}

// layout leaves no hole: the last of an odd number of charts is wide.
function layout() {
  const shown = Object.values(views).map((v) => v.section).filter((x) => !x.hidden).sort((a, b) => a.compareDocumentPosition(b) & 2 ? 1 : -1);
  shown.forEach((x, i) => x.classList.toggle('wide', i === shown.length - 1 && i % 2 === 0));
}

// series draws the chart of a view, and its table.
function series(id, from, to, more) {
  const v = views[id], { times, columns, step } = v.data;
  const list = columns.map((c) => ({ name: (names[c.name] ?? c.name) + (c.device === state.device ? '' : ` (${c.device})`), id: c.name, color: color(id, c.name), values: c.values }));
  const at = v.pointed >= 0 && v.pointed < times.length ? v.pointed : times.length - 1;
  const when = at === times.length - 1 ? 'now' : clock(times[at], true);
  v.plot.draw(times, list, from, to, step, `${v.section.querySelector('h2').textContent} over time; the table has the numbers`);
  const heads = [[v.head, 'text'], [when, ''], ['mean', 'wideonly'], ['most', '']];
  if (more) heads.push(...more.heads);
  const rows = list.map((c) => ({
    key: c.name,
    cells: [marked(c.color, c.name), titled(v.format(c.values[at] ?? 0), exactly(v, c.values[at] ?? 0)), v.format(mean(c.values)), v.format(Math.max(0, ...c.values)), ...(more ? more.cells(c.id) : [])],
  }));
  if (v.stack) rows.reverse(); // as they lie in the chart
  table(v.table, v.section.querySelector('h2').textContent, heads, rows);
}

const mean = (list) => list.length ? list.reduce((a, b) => a + b, 0) / list.length : 0;
const exactly = (v, n) => v.binary ? grouped(n) + ' bytes' : '';

// linkRow adds what a path has moved in all.
const linkRow = (snap) => ({
  heads: [['in all', ''], ['copies', 'wideonly'], ['failed', '']],
  cells: (name) => {
    const [direction, path] = name.split(' ');
    if (path === 'loader') return [bytes(sum(snap.loader, (x) => x.h2d_bytes)), grouped(sum(snap.loader, (x) => x.batches)), ''];
    const of = (key) => sum(snap.transfer, (t) => t.traffic.filter((w) => w.direction === direction && w.path === path).reduce((n, w) => n + w[key], 0));
    const failed = of('failed');
    return [bytes(of('bytes')), grouped(of('copies')), (cell) => { text(cell, failed ? grouped(failed) : ''); cell.className = failed ? 'bad' : ''; }];
  },
});

// stages shows what loaders' workers and devices do, and marks what limits.
function stages(s, from, to) {
  const v = views.loader, { times, columns, step } = v.data;
  const shown = columns.filter((c) => c.name !== 'worker idle' && c.values.some((x) => x > 0));
  const list = shown.map((c) => ({ name: stageName(c.name), color: color('stage', c.name), values: c.values }));
  v.plot.draw(times, list, from, to, step, 'How many are busy with each stage over time; the table has the numbers');
  const at = v.pointed >= 0 && v.pointed < times.length ? v.pointed : times.length - 1;
  const workers = sum(s.snapshot.loader, (x) => x.workers), devices = Math.max(1, sum(s.snapshot.loader, (x) => x.devices));
  const limit = s.limits.find((l) => matches(l.device))?.limit ?? '';
  const rows = columns.map((c) => {
    const [where, ...rest] = c.name.split(' ');
    const stage = rest.join(' ') || where, of = where === 'worker' ? workers : where === 'device' ? devices : 1;
    const now = c.values[at] ?? 0, share = Math.min(1, now / Math.max(of, 1)), limits = stage === limit;
    return {
      key: c.device + c.name, className: limits ? 'limit' : '',
      cells: [marked(color('stage', c.name), stageName(c.name), limits ? 'limit' : undefined), who(where, of), digits(now), digits(mean(c.values)), percent(share), bar(share)],
    };
  });
  table(v.table, 'Stages of loaders', [['Stage', 'text'], ['of', ''], [at === times.length - 1 ? 'busy' : clock(times[at], true), ''], ['mean', 'wideonly'], ['share', ''], ['', 'bar']], rows);
}

const stageName = (name) => name === 'wait' ? 'program waits for batches' : name === 'tier wait' ? 'program waits for arrays' : name.replace(/^(worker|device) /, '');
const who = (where, n) => where === 'worker' ? `${n} ${n === 1 ? 'worker' : 'workers'}` : where === 'device' ? (n > 1 ? `${n} devices` : 'device') : 'program';

const advice = {
  '': ['Nothing is loaded.'],
  device: ['The loader keeps ahead: ', ['the program'], ' is the limit.'],
  latency: ['No stage is busy all the time: ', ['more workers or more prefetch'], ' would help.'],
};

function sums(s) {
  const { snapshot: snap } = s;
  const limit = s.limits.find((l) => matches(l.device))?.limit ?? '';
  fill(views.loader.sum, ...(advice[limit] ?? [[limit], ' limits the loader.']), ` ${count(sum(snap.loader, (x) => x.batches), 'batch', 'batches')}, ${count(sum(snap.loader, (x) => x.samples), 'sample')} so far.`);
  const both = (of) => sum(snap.vram, of) + sum(snap.foreign, of), failed = both((x) => x.out_of_memory);
  fill(views.memory.sum, ...bold(both((x) => x.blocks), 'block'), ', ', [bytes(both((x) => x.reserved_bytes))], ' reserved, ', [bytes(both((x) => x.fragmented_bytes))], ' of it fragmented',
    failed ? `; ${count(failed, 'allocation')} failed` : '', '.');
  fill(views.pinned.sum, [bytes(sum(snap.pinned, (x) => x.reserved_bytes))], ' in segments, budget ', [bytes(sum(snap.pinned, (x) => x.budget_bytes))], `; ${count(sum(snap.pinned, (x) => x.hits), 'buffer')} reused, ${grouped(sum(snap.pinned, (x) => x.misses))} not.`,
    sum(snap.pinned, (x) => x.lost_bytes) ? ` ${bytes(sum(snap.pinned, (x) => x.lost_bytes))} given up.` : '');
  const waiting = sum(snap.transfer, (x) => x.waiting), active = sum(snap.transfer, (x) => x.traffic.reduce((n, w) => n + w.active, 0));
  fill(views.link.sum, ...bold(active, 'copy', 'copies'), ' under way, ', ['' + waiting], ' waiting for a copier.');
  const uses = sum(snap.tier, (x) => x.uses);
  fill(views.tier.sum, ...bold(sum(snap.tier, (x) => x.arrays), 'array'), ' of ', [bytes(sum(snap.tier, (x) => x.array_bytes))], `; ${count(sum(snap.tier, (x) => x.waiting), 'use waits', 'uses wait')}.`);
  fill(views.tiermoves.sum, ['' + (uses ? percent(sum(snap.tier, (x) => x.misses) / uses) : '0 %')], ` of ${count(uses, 'use')} missed, ${count(sum(snap.tier, (x) => x.evictions), 'eviction')}.`);
}

// bold is a number of things, for fill.
const bold = (n, one, many) => [[grouped(n)], ' ' + (n === 1 ? one : many ?? one + 's')];

function tiles(s) {
  const { snapshot: snap } = s;
  const d = s.devices.find((x) => x.device === state.device && !x.error);
  const pools = sum(snap.vram, (x) => x.reserved_bytes), own = sum(snap.loader, (x) => x.device_bytes);
  const others = (snap.foreign ?? []).filter((x) => matches(x.device)), theirs = sum(others, (x) => x.reserved_bytes);
  const to = (prefix) => s.values.filter((v) => v.chart === 'link_bytes_per_s' && matches(v.device) && v.name.startsWith(prefix));
  const add = (list) => list.reduce((n, v) => n + v.value, 0);
  // A loader's copies may be those of an engine: at least the larger of both is moved.
  const up = Math.max(add(to('h2d').filter((v) => v.name !== 'h2d loader')), add(to('h2d loader')));
  const limit = s.limits.find((l) => matches(l.device))?.limit ?? '';
  const list = [
    [`Device ${state.device}`, d ? bytes(d.total_bytes - d.free_bytes) : '–', d ? `used of ${bytes(d.total_bytes)}, by all programs` : 'no figures'],
    ['Held by this process', bytes(pools + own + theirs), [`${bytes(pools)} in pools`, `${bytes(own)} by loaders`, ...others.map((x) => `${bytes(x.reserved_bytes)} by ${x.source}`)].join(', ')],
    ['Pinned host memory', bytes(sum(snap.pinned, (x) => x.reserved_bytes + x.registered_bytes)), `${count(sum(snap.pinned, (x) => x.buffers), 'buffer')} in use`],
    ['To the device', rate(up), 'of bytes that arrived'],
    ['To the host', rate(add(to('d2h'))), 'of bytes that arrived'],
  ];
  if (has(snap.loader, (x) => 1)) {
    list.push(['Loader', figure(value(s, 'samples_per_s')) + ' /s', limit === '' ? 'samples' : limit === 'device' ? 'samples; the program is the limit' : `samples; limited by ${limit}`],
      ['The program waits', percent(Math.min(1, value(s, 'stage_busy', 'wait'))), 'of the time, for batches']);
  }
  const box = $('tiles');
  while (box.children.length > list.length) box.lastChild.remove();
  list.forEach(([name, now, more], i) => {
    let tile = box.children[i];
    if (!tile) {
      tile = make('div');
      tile.append(make('dt'), make('dd'), make('dd'));
      box.append(tile);
    }
    text(tile.children[0], name);
    text(tile.children[1], now);
    text(tile.children[2], more);
  });
}

// --- controls

for (const input of document.querySelectorAll('[name=window]')) {
  input.addEventListener('change', () => { state.window = Number(input.value); schedule(); });
  if (input.checked) state.window = Number(input.value);
}
$('device').addEventListener('change', () => { state.device = $('device').value; schedule(); });
$('pause').addEventListener('click', () => {
  state.paused = !state.paused;
  $('pause').setAttribute('aria-pressed', String(state.paused));
  for (const x of [map, timeline, leaks]) x.paused = state.paused;
  if ($('state').dataset.state === 'live') status('live', state.paused ? 'Paused' : 'Live');
  schedule();
});
document.addEventListener('visibilitychange', schedule);
onTheme(() => {
  for (const v of Object.values(views)) v.plot.reset();
  map.draw();
  timeline.draw();
  schedule();
});
setInterval(since, 1000);

const map = new MemoryMap();
const timeline = new Timeline();
const leaks = new Leaks();
connect();
