// A chart over time, by uPlot. The table beside it has the same numbers.

import { css } from './colors.js';
import { clock } from './format.js';

const powersOfTwo = Array.from({ length: 52 }, (_, i) => 2 ** i);

export class Chart {
  // box is where it is drawn. o says: stack, whether values add up; format, how one is
  // printed; binary, whether an axis has powers of two; pointed, who is told what point
  // is pointed at, or null.
  constructor(box, o) {
    this.box = box;
    this.o = o;
    this.key = '';
    this.from = this.to = 0;
    box.tabIndex = 0;
    box.setAttribute('role', 'img');
    new ResizeObserver(() => {
      if (this.plot && box.clientWidth) this.plot.setSize({ width: box.clientWidth, height: this.height() });
    }).observe(box);
    box.addEventListener('keydown', (e) => this.move(e));
    box.addEventListener('blur', () => this.plot?.setCursor({ left: -10, top: -10 }));
  }

  height() { return 170; }

  // draw shows lists of values of one length: [{name, color, values}], the lowest of a
  // stack first, over times in milliseconds.
  draw(times, list, from, to, step, label) {
    this.from = from / 1000;
    this.to = to / 1000;
    this.box.setAttribute('aria-label', label);
    const key = JSON.stringify(list.map((s) => [s.name, s.color]));
    if (key !== this.key || !this.plot) {
      this.key = key;
      this.build(list);
    }
    this.plot.setData(this.data(times, list, step));
  }

  // reset builds the chart anew, in other colours.
  reset() { this.key = ''; }

  // data makes uPlot's columns. Where no samples were taken there is a gap.
  data(times, list, step) {
    const x = [], at = [];
    times.forEach((t, i) => {
      if (i && t - times[i - 1] > 3500 * step) {
        x.push(times[i - 1] / 1000 + step);
        at.push(-1);
      }
      x.push(t / 1000);
      at.push(i);
    });
    this.at = at;
    const columns = [];
    let below = null;
    for (const s of list) {
      const y = at.map((i, k) => i < 0 ? null : s.values[i] + (this.o.stack && below ? below[k] : 0));
      columns.push(y);
      below = y;
    }
    return [x, ...(this.o.stack ? columns.reverse() : columns)];
  }

  build(list) {
    this.plot?.destroy();
    const ink = css('soft'), grid = css('grid'), font = '11px system-ui, sans-serif';
    const series = list.map((s) => this.o.stack
      ? { stroke: s.color, fill: s.color, width: 0.5, points: { show: false } }
      : { stroke: s.color, width: 1.5, points: { show: false } });
    if (this.o.stack) series.reverse(); // the highest sum first, the lower ones over it
    const axis = { stroke: ink, font, grid: { stroke: grid, width: 1 }, ticks: { stroke: grid, width: 1, size: 4 } };
    this.plot = new uPlot({
      width: this.box.clientWidth || 400,
      height: this.height(),
      padding: [10, 36, 0, 0], // half of a time on the right
      legend: { show: false },
      cursor: { y: false, points: { show: false }, drag: { x: false, y: false }, sync: { key: 'pinion' } },
      scales: { x: { range: () => [this.from, this.to] }, y: { range: (_, __, max) => [0, max > 0 ? max * 1.08 : 1] } },
      axes: [
        { ...axis, size: 26, space: 70, values: (_, ticks) => ticks.map((t) => clock(t * 1000, this.to - this.from < 1200)) },
        { ...axis, size: 68, space: 34, values: (_, ticks) => ticks.map(this.o.format), ...(this.o.binary && { incrs: powersOfTwo }) },
      ],
      series: [{}, ...series],
      hooks: { setCursor: [(u) => this.o.pointed(u.cursor.idx == null || u.cursor.left < 0 ? -1 : this.at?.[u.cursor.idx] ?? -1)] },
    }, [[], ...list.map(() => [])], this.box);
  }

  // move points at a neighbour, for those without a mouse.
  move(e) {
    const u = this.plot, step = { ArrowLeft: -1, ArrowRight: 1 }[e.key];
    if (!u || !step || !u.data[0].length) return;
    e.preventDefault();
    const last = u.data[0].length - 1;
    const old = u.cursor.left >= 0 ? u.cursor.idx ?? last : last + 1;
    const i = Math.max(0, Math.min(last, old + step));
    u.setCursor({ left: u.valToPos(u.data[0][i], 'x'), top: 10 });
  }
}
