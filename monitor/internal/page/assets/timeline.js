// The last seconds of the recording that is on, in lanes.

import { color, css } from './colors.js';
import { $, fill, marked, table, text } from './dom.js';
import { bytes, digits, grouped, seconds } from './format.js';

const window = 5, most = 3000; // seconds, spans
const laneHeight = 14, gap = 3, mostLanes = 48;

// parts are what a worker's time goes to, one after the other.
const parts = ['read', 'decode', 'resize'];

// round is the least of 1, 2, 5, 10, 20 and so on, and of their tenths, that v does not exceed.
function round(v) {
  const power = 10 ** Math.floor(Math.log10(v));
  return power * [1, 2, 5, 10].find((k) => k * power >= v * 0.999);
}

// fitted is as much of a name as is not wider: its end, which tells rows apart.
function fitted(g, name, width) {
  if (g.measureText(name).width <= width) return name;
  let from = 1;
  while (from < name.length && g.measureText('…' + name.slice(from)).width > width) from++;
  return '…' + name.slice(from);
}

export class Timeline {
  constructor() {
    this.canvas = $('lanes').querySelector('canvas');
    this.paused = false;
    this.lanes = [];
    this.at = null;
    this.seen = false;
    this.hint = 'Point at a span; the arrow keys go from one to the next.';
    text($('timeline-note'), this.hint);
    new IntersectionObserver((list) => { this.seen = list.at(-1).isIntersecting; }).observe($('timeline'));
    new ResizeObserver(() => this.draw()).observe($('lanes'));
    this.canvas.addEventListener('pointermove', (e) => this.point(this.spanAt(e)));
    this.canvas.addEventListener('pointerleave', () => this.point(null));
    this.canvas.addEventListener('blur', () => this.point(null));
    this.canvas.addEventListener('keydown', (e) => {
      const step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
      if (!step || !this.spans?.length) return;
      e.preventDefault();
      const i = this.spans.indexOf(this.at);
      this.point(this.spans[Math.max(0, Math.min(this.spans.length - 1, i < 0 ? this.spans.length - 1 : i + step))]);
    });
    setInterval(() => { if (!this.paused && !document.hidden && !this.at && (this.seen || $('timeline').hidden && this.rounds++ % 5 === 0)) this.load(); }, 1000);
    this.rounds = 0;
    this.load();
  }

  async load() {
    if (this.busy) return;
    this.busy = true;
    try {
      const answer = await fetch(`api/timeline?seconds=${window}&limit=${most}`);
      if (!answer.ok) return;
      const d = await answer.json();
      $('timeline').hidden = !d.recording;
      if (!d.recording) return;
      this.now = d.now_seconds;
      this.spans = d.spans;
      // Where there are more spans than are shown, they reach less far back.
      this.window = window;
      if (d.spans.length === most) this.window = Math.min(window, Math.max(0.01, this.now - Math.min(...d.spans.map((s) => s.end_seconds))));
      this.order();
      this.draw();
      this.list();
    } catch { /* disconnected, which the header says */ } finally {
      this.busy = false;
    }
  }

  // order puts spans that overlap into lanes below each other.
  order() {
    const rows = new Map();
    for (const s of this.spans) {
      const key = JSON.stringify([s.group, s.row]);
      if (!rows.has(key)) rows.set(key, { group: s.group, row: s.row, lanes: [] });
      const { lanes } = rows.get(key);
      let lane = lanes.find((l) => l.end <= s.start_seconds);
      if (!lane) lanes.push(lane = { end: 0, spans: [] });
      lane.end = s.end_seconds;
      lane.spans.push(s);
    }
    const number = (name) => name.replace(/\d+/g, (n) => n.padStart(6, '0'));
    const sorted = [...rows.values()].sort((a, b) => number(a.group).localeCompare(number(b.group)) || number(a.row).localeCompare(number(b.row)));
    this.lanes = [];
    for (const r of sorted) {
      r.lanes.forEach((l, i) => this.lanes.push({ label: i ? '' : `${r.group} · ${r.row}`, spans: l.spans }));
    }
    this.left = Math.max(0, this.lanes.length - mostLanes);
    this.lanes.length -= this.left;
  }

  get labelWidth() { return Math.min(210, $('lanes').clientWidth * 0.32); }

  x(t) {
    const from = this.labelWidth, width = $('lanes').clientWidth - from;
    return from + Math.max(0, (t - this.now + this.window) / this.window) * width;
  }

  draw() {
    if (!this.spans || $('timeline').hidden) return;
    const width = $('lanes').clientWidth, height = this.lanes.length * (laneHeight + gap) + 18, scale = devicePixelRatio || 1, c = this.canvas;
    if (c.width !== Math.round(width * scale) || c.height !== Math.round(height * scale)) {
      c.width = Math.round(width * scale);
      c.height = Math.round(height * scale);
      c.style.height = height + 'px';
    }
    const g = c.getContext('2d');
    g.setTransform(scale, 0, 0, scale, 0, 0);
    g.clearRect(0, 0, width, height);
    g.font = '11px system-ui, sans-serif';
    g.textBaseline = 'middle';
    const step = round(this.window / Math.max(1, Math.floor((width - this.labelWidth) / 64)));
    for (let i = 0; i * step <= this.window * 1.001; i++) {
      const x = Math.min(width - 1, this.x(this.now - i * step));
      g.fillStyle = css('grid');
      g.fillRect(x, 0, 1, height - 16);
      g.fillStyle = css('soft');
      g.textAlign = i ? 'center' : 'right';
      g.fillText(i ? '−' + seconds(i * step) : 'now', x, height - 7);
    }
    g.textAlign = 'left';
    this.lanes.forEach((lane, i) => {
      const y = i * (laneHeight + gap);
      if (lane.label) {
        g.fillStyle = css('soft');
        g.fillText(fitted(g, lane.label, this.labelWidth - 8), 0, y + laneHeight / 2 + 1);
      }
      for (const s of lane.spans) {
        const x = this.x(s.start_seconds), w = Math.max(1, this.x(s.end_seconds) - x - 0.5);
        g.fillStyle = parts.some((part) => s[part + '_seconds']) ? css('free') : color('span', s.name);
        g.fillRect(x, y, w, laneHeight);
        let from = s.start_seconds;
        for (const part of parts) {
          const took = s[part + '_seconds'];
          if (!took) continue;
          g.fillStyle = color('stage', 'worker ' + part);
          g.fillRect(this.x(from), y, Math.max(0.5, this.x(from + took) - this.x(from) - 0.5), laneHeight);
          from += took;
        }
        if (s === this.at) {
          g.strokeStyle = css('ink');
          g.lineWidth = 2;
          g.strokeRect(x - 1, y - 1, w + 2, laneHeight + 2);
        }
      }
    });
    c.setAttribute('aria-label', `${this.spans.length} spans of the last ${seconds(this.window)} in ${this.lanes.length} rows; the table has their times`);
  }

  spanAt(e) {
    const r = this.canvas.getBoundingClientRect(), x = e.clientX - r.left;
    const lane = this.lanes[Math.floor((e.clientY - r.top) / (laneHeight + gap))];
    return lane?.spans.find((s) => x >= this.x(s.start_seconds) - 1 && x <= this.x(s.end_seconds) + 1) ?? null;
  }

  point(s) {
    if (s === this.at) return;
    this.at = s;
    this.draw();
    const words = s && [`${s.group} · ${s.row}: `, [s.name], ` took ${seconds(s.end_seconds - s.start_seconds)}`, s.bytes ? `, ${bytes(s.bytes)}` : '', s.batch ? `, batch ${s.batch}` : '',
      s.samples ? `, ${grouped(s.samples)} samples` : '', ...parts.map((part) => s[part + '_seconds'] ? `, ${part} ${seconds(s[part + '_seconds'])}` : ''), s.engine !== 'host' ? `, queued ${seconds(Math.max(0, s.start_seconds - s.call_seconds))} before` : '', '.'];
    fill($('timeline-note'), ...(words ?? [this.hint]));
  }

  // list adds the spans up by name.
  list() {
    const sums = new Map();
    for (const s of this.spans) {
      const key = s.group + ' ' + s.name;
      const x = sums.get(key) ?? { group: s.group, name: s.name, count: 0, seconds: 0, bytes: 0, most: 0 };
      x.count++;
      x.seconds += s.end_seconds - s.start_seconds;
      x.bytes += s.bytes ?? 0;
      x.most = Math.max(x.most, s.end_seconds - s.start_seconds);
      sums.set(key, x);
    }
    const rows = [...sums.values()].sort((a, b) => b.seconds - a.seconds).slice(0, 20);
    fill($('timeline').querySelector('.sum'), [grouped(this.spans.length)], ` ${this.spans.length === 1 ? 'span' : 'spans'} of ${seconds(this.window)}`, this.left ? `; ${this.left} more rows are not shown` : '', '.');
    table($('timeline').querySelector('table'), 'Times by name', [['Name', 'text'], ['Where', 'text'], ['spans', ''], ['time', ''], ['busy', ''], ['longest', ''], ['bytes', '']], rows.map((r) => ({
      key: r.group + ' ' + r.name,
      cells: [marked(color('span', r.name), r.name), r.group, grouped(r.count), seconds(r.seconds), digits(r.seconds / this.window), seconds(r.most), r.bytes ? bytes(r.bytes) : ''],
    })));
  }
}
