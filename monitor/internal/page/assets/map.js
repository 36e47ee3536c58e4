// The allocation map of a pool: cells of one size, drawn by the server's counts, and
// the blocks in a cell on demand.

import { color, css } from './colors.js';
import { $, fill, make, marked, table, text } from './dom.js';
import { age, bytes, grouped } from './format.js';

const cellWidth = 4, cellHeight = 12, gap = 2, mostRows = 28, mostCells = 16384;

export class MemoryMap {
  constructor() {
    this.canvas = $('cells').querySelector('canvas');
    this.pool = 0; // the first
    this.from = 0;
    this.to = null; // to the end
    this.at = -1; // the cell that is pointed at
    this.paused = false;
    this.map = null;
    this.seen = false;
    new IntersectionObserver((list) => { this.seen = list.at(-1).isIntersecting; }).observe($('map'));
    new ResizeObserver(() => this.draw()).observe($('cells'));
    this.canvas.addEventListener('pointermove', (e) => this.point(this.cellAt(e)));
    this.canvas.addEventListener('pointerleave', () => this.point(-1));
    this.canvas.addEventListener('click', (e) => { this.point(this.cellAt(e)); this.zoom(1 / 8); });
    this.canvas.addEventListener('keydown', (e) => this.key(e));
    this.canvas.addEventListener('blur', () => this.point(-1));
    for (const b of document.querySelectorAll('[data-map]')) {
      b.addEventListener('click', () => this.zoom({ in: 1 / 8, out: 8, all: Infinity }[b.dataset.map]));
    }
    $('pool').addEventListener('change', () => { this.pool = Number($('pool').value); this.zoom(Infinity); });
    setInterval(() => { if (!this.paused && !document.hidden && (this.seen || $('map').hidden)) this.load(); }, 2500);
    this.load();
  }

  get columns() { return Math.max(16, Math.floor(($('cells').clientWidth || 800) / cellWidth)); }

  async load() {
    if (this.busy) return;
    this.busy = true;
    try {
      const cells = Math.min(mostCells, this.columns * mostRows);
      let answer = await fetch(`api/memory?pool=${this.pool}&cells=${cells}&from=${this.from}` + (this.to === null ? '' : `&to=${this.to}`));
      if (answer.status === 404) { // the pool was closed
        Object.assign(this, { pool: 0, from: 0, to: null });
        answer = await fetch(`api/memory?cells=${cells}`);
      }
      if (!answer.ok) return;
      const d = await answer.json();
      this.states = d.states;
      this.map = d.map;
      $('map').hidden = $('holders').hidden = !d.map;
      if (!d.map) return;
      this.pool = d.map.pool;
      this.cells = Uint8Array.from(atob(d.map.cells), (c) => c.charCodeAt(0));
      this.describe(d);
      this.draw();
      await Promise.all([this.list(), this.holders()]);
    } catch { /* disconnected, which the header says */ } finally {
      this.busy = false;
    }
  }

  describe(d) {
    const key = JSON.stringify(d.pools.map((p) => [p.pool, p.device, p.source]));
    if ($('pool').dataset.key !== key) {
      $('pool').dataset.key = key;
      $('pool').replaceChildren(...d.pools.map((p) => new Option(`${p.source || p.pool} on ${p.device}`, p.pool)));
    }
    $('pool').value = String(this.pool);
    $('pools').hidden = d.pools.length < 2;
    const p = d.pools.find((x) => x.pool === this.pool), m = d.map;
    this.called = p.source || `pool ${p.pool}`;
    fill($('map').querySelector('.sum'), [bytes(m.bytes)], ' mapped in ', [grouped(m.segments.length + m.more_segments)], this.to === null ? ' segments' : ' segments in view',
      ', ', [grouped(p.blocks)], ' blocks; ', [bytes(p.free_bytes)], ' free, ', [bytes(p.fragmented_bytes)], ' of it fragmented. A cell is ', [bytes(m.cell_bytes)], '.',
      this.to === null ? '' : ` In view: ${bytes(m.from_bytes)} to ${bytes(m.to_bytes)}.`);
    const used = new Set([...this.cells].map((c) => c & 15));
    const legend = this.states.filter((_, i) => used.has(i));
    if ($('map-legend').dataset.key !== legend.join()) {
      $('map-legend').dataset.key = legend.join();
      $('map-legend').replaceChildren(...legend.map((name) => {
        const li = make('li'), mark = make('span', 'mark');
        mark.style.background = paint(name);
        li.append(mark, name);
        return li;
      }));
    }
  }

  draw() {
    if (!this.map || $('map').hidden) return;
    const width = $('cells').clientWidth, columns = this.columns, rows = Math.max(1, Math.ceil(this.cells.length / columns));
    const height = rows * (cellHeight + gap) - gap, scale = devicePixelRatio || 1;
    const c = this.canvas;
    if (c.width !== Math.round(width * scale) || c.height !== Math.round(height * scale)) {
      c.width = Math.round(width * scale);
      c.height = Math.round(height * scale);
      c.style.height = height + 'px';
    }
    const g = c.getContext('2d');
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    const colors = this.states.map(paint), free = css('free'), edge = css('card');
    const w = width / columns;
    this.cells.forEach((cell, i) => {
      const x = Math.round((i % columns) * w), y = Math.floor(i / columns) * (cellHeight + gap), level = cell >> 4 & 7;
      const wide = Math.round((i % columns + 1) * w) - x;
      g.fillStyle = free;
      g.fillRect(x, y, wide, cellHeight);
      if (level) {
        const h = Math.max(2, cellHeight * level / 7);
        g.fillStyle = colors[cell & 15];
        g.fillRect(x, y + cellHeight - h, wide, h);
        if (cell & 128 && i && !(this.cells[i - 1] & 128)) { // where blocks are larger than cells, their edges
          g.fillStyle = edge;
          g.fillRect(x, y, 1, cellHeight);
        }
      }
    });
    c.setAttribute('aria-label', `Map of ${bytes(this.map.to_bytes - this.map.from_bytes)} in ${grouped(this.cells.length)} cells; the table has the blocks`);
    g.fillStyle = css('ink');
    for (const s of this.map.segments) { // where a segment begins
      const i = Math.floor((s.offset_bytes - this.map.from_bytes) / this.map.cell_bytes);
      if (i > 0 && i < this.cells.length) g.fillRect((i % columns) * w - 0.5, Math.floor(i / columns) * (cellHeight + gap) - 1, 1, cellHeight + 2);
    }
    if (this.at >= 0 && this.at < this.cells.length) {
      g.strokeStyle = css('ink');
      g.lineWidth = 2;
      g.strokeRect((this.at % columns) * w - 1, Math.floor(this.at / columns) * (cellHeight + gap) - 1, w + 2, cellHeight + 2);
    }
  }

  cellAt(e) {
    const r = this.canvas.getBoundingClientRect(), columns = this.columns;
    const column = Math.floor((e.clientX - r.left) / r.width * columns), row = Math.floor((e.clientY - r.top) / (cellHeight + gap));
    const i = row * columns + column;
    return column >= 0 && column < columns && i >= 0 && i < (this.cells?.length ?? 0) ? i : -1;
  }

  point(i) {
    if (i === this.at) return;
    this.at = i;
    this.draw();
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.list(), 80);
  }

  key(e) {
    const step = { ArrowLeft: -1, ArrowRight: 1, ArrowUp: -this.columns, ArrowDown: this.columns }[e.key];
    if (step && this.cells) {
      this.point(Math.max(0, Math.min(this.cells.length - 1, this.at < 0 ? 0 : this.at + step)));
    } else if (e.key === 'Enter') {
      this.zoom(1 / 8);
    } else if (e.key === 'Escape') {
      this.zoom(8);
    } else {
      return;
    }
    e.preventDefault();
  }

  // zoom shows so much more, or less, around the cell that is pointed at.
  zoom(factor) {
    const m = this.map;
    if (!m) return;
    const size = m.to_bytes - m.from_bytes, wanted = Math.max(4096, size * factor);
    if (wanted >= m.bytes) {
      Object.assign(this, { from: 0, to: null });
    } else {
      const middle = this.at < 0 ? m.from_bytes + size / 2 : m.from_bytes + (this.at + 0.5) * m.cell_bytes;
      this.from = Math.round(Math.max(0, Math.min(m.bytes - wanted, middle - wanted / 2)) / 512) * 512;
      this.to = Math.round((this.from + wanted) / 512) * 512;
    }
    this.at = -1;
    this.load();
  }

  // list shows the largest blocks of the cell, or of all that is in view.
  async list() {
    const m = this.map;
    if (!m) return;
    const one = this.at >= 0;
    const from = one ? m.from_bytes + this.at * m.cell_bytes : m.from_bytes, to = one ? Math.min(from + m.cell_bytes, m.to_bytes) : m.to_bytes;
    let d;
    try {
      const answer = await fetch(`api/blocks?pool=${m.pool}&from=${from}&to=${to}&limit=8`);
      if (!answer.ok) return;
      d = await answer.json();
    } catch { return; }
    if (one !== this.at >= 0) return; // another question came meanwhile
    text($('blocks-h'), one ? `At ${bytes(from)}: ${grouped(d.count)} ${d.count === 1 ? 'block' : 'blocks'}` : 'Largest blocks in view');
    table($('blocks'), 'Blocks', [['Purpose', 'text'], ['Name and stack', 'text'], ['Size', ''], ['Asked for', 'wideonly'], ['Age', ''], ['Address', 'wideonly']], d.blocks.map((b) => ({
      key: b.address,
      cells: [
        marked(paint(b.state === 'live' ? b.purpose : b.state), b.state === 'live' ? b.purpose : b.state === 'pending' ? `${b.purpose}, freed` : 'free'),
        stacked(b.name, b.stack), bytes(b.bytes), b.state === 'free' ? '' : bytes(b.requested_bytes), b.age_seconds === null ? '' : age(b.age_seconds), b.address,
      ],
    })));
  }

  async holders() {
    const answer = await fetch(`api/holders?pool=${this.pool}&limit=12`);
    if (!answer.ok) return;
    const d = await answer.json();
    fill($('holders').querySelector('.sum'), `By purpose and name, of ${this.called}: `, [grouped(d.count)], ' in all.');
    table($('holders').querySelector('table'), 'Top holders', [['Purpose', 'text'], ['Name and stack', 'text'], ['Size', ''], ['Blocks', ''], ['Oldest', '']], d.holders.map((h) => ({
      key: h.purpose + '/' + h.name,
      cells: [marked(paint(h.purpose), h.purpose), stacked(h.name, h.stack), bytes(h.allocated_bytes), grouped(h.blocks), h.oldest_seconds === null ? '' : age(h.oldest_seconds)],
    })));
  }
}

// paint is the colour that a name has in the chart of the memory, too.
const paint = (name) => css(name) || color('memory', name);

// stacked is a name, of which three lines are shown, and the calls that led to it: the
// innermost. All of both is told where one points at them.
export const stacked = (name, stack) => (cell) => {
  const key = JSON.stringify([name, stack]);
  if (cell.dataset.key === key) return;
  cell.dataset.key = key;
  const title = make('div', 'name', name || '–');
  title.title = name;
  cell.replaceChildren(title);
  if (stack.length) {
    const line = make('div', 'stack', short(stack[0]));
    line.title = stack.join('\n');
    cell.append(line);
  }
};

// short is a frame without the folders of its file and package.
const short = (frame) => {
  const at = frame.indexOf(' ');
  return frame.slice(0, at).split('/').at(-1) + ' ' + frame.slice(at + 1).split('/').at(-1);
};
