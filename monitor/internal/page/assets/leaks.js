// What each second leaves behind.

import { $, fill, table } from './dom.js';
import { age, bytes, digits, grouped } from './format.js';
import { stacked } from './map.js';

export class Leaks {
  constructor() {
    this.paused = false;
    setInterval(() => { if (!this.paused && !document.hidden) this.load(); }, 5000);
    setTimeout(() => this.load(), 500);
  }

  async load() {
    let d;
    try {
      const answer = await fetch('api/leaks');
      if (!answer.ok) return;
      d = await answer.json();
    } catch { return; } // disconnected, which the header says
    $('leaks').hidden = !d.watching;
    const sites = [...d.leaks.map((s) => [s, 'leak']), ...d.others.slice(0, 6).map((s) => [s, 'grew'])];
    const note = $('leaks').querySelector('.sum');
    if (!d.window_steps) {
      fill(note, 'A leak shows after some minutes of watching; ', [grouped(d.steps)], ' looks so far.');
    } else if (d.leaks.length) {
      fill(note, [grouped(d.leaks.length)], ` ${d.leaks.length === 1 ? 'site leaves' : 'sites leave'} something behind all the time, as seen for ${age(d.seconds)}.`);
    } else {
      fill(note, ['None'], ` in the last ${age(d.seconds)}.`, sites.length ? ' What grew without leaking:' : '');
    }
    table($('leaks').querySelector('table'), 'Leak candidates', [['What', 'text'], ['Name and stack', 'text'], ['left', ''], ['bytes', ''], ['a second', ''], ['in all', '']], sites.map(([s, kind]) => ({
      key: JSON.stringify([kind, s.kind, s.device, s.purpose, s.name, s.stack]),
      className: kind,
      cells: [`${s.kind}${s.purpose ? ' · ' + s.purpose : ''}`, stacked(s.name ?? '', s.stack.map((f) => `${f.function} ${f.file}:${f.line}`)),
        grouped(s.left_items), s.left_bytes ? bytes(s.left_bytes) : '–', s.bytes_per_step ? bytes(Math.round(s.bytes_per_step)) : digits(s.items_per_step), s.bytes ? bytes(s.bytes) : grouped(s.items)],
    })));
  }
}
