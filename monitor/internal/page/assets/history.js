// Samples of a day in bounded memory, as history.go keeps them: the largest of
// amounts, the mean of rates.

const maxColumns = 256;

const steps = [[1, 600], [10, 720], [60, 1440]];

const keyOf = (c) => JSON.stringify([c.chart, c.device, c.name]);

export class History {
  constructor() {
    this.columns = [];
    this.index = new Map();
    this.tiers = steps.map(([step, most]) => ({ step, most, times: [], samples: [], values: [] }));
  }

  // load takes what the server has.
  static load(document) {
    const h = new History();
    for (const c of document.columns) h.column(c);
    h.tiers = document.tiers.map((t) => ({ step: t.step_seconds, most: t.points, times: t.times, samples: t.samples, values: t.values }));
    return h;
  }

  column(c) {
    const key = keyOf(c);
    let i = this.index.get(key);
    if (i === undefined && this.columns.length < maxColumns) {
      i = this.columns.push({ chart: c.chart, device: c.device, name: c.name, rate: c.rate }) - 1;
      this.index.set(key, i);
    }
    return i;
  }

  // latest is the time of the latest sample.
  get latest() { return this.tiers[0].times.at(-1) ?? 0; }

  get points() { return this.tiers.reduce((n, t) => n + t.times.length, 0); }

  add(at, list) {
    if (at <= this.latest) return;
    const row = new Array(this.columns.length).fill(0);
    for (const v of list) {
      const i = this.column(v);
      if (i !== undefined) row[i] = v.value;
    }
    for (const t of this.tiers) this.addTo(t, at, row);
  }

  addTo(t, at, row) {
    const slot = Math.floor(at / 1000 / t.step);
    let last = t.times.length - 1;
    if (last < 0 || Math.floor(t.times[last] / 1000 / t.step) !== slot) {
      t.times.push(at);
      t.samples.push(0);
      t.values.push([]);
      if (t.times.length > t.most) for (const list of [t.times, t.samples, t.values]) list.shift();
      last = t.times.length - 1;
    }
    const p = t.values[last], n = t.samples[last];
    for (let i = 0; i < row.length; i++) {
      const v = row[i] ?? 0, old = p[i] ?? 0;
      p[i] = this.columns[i].rate ? old + (v - old) / (n + 1) : Math.max(old, v);
    }
    t.samples[last] = n + 1;
    t.times[last] = at;
  }

  // select returns the columns of a chart and device, with their values from a time
  // on, from the finest tier that reaches so far.
  select(chart, matches, from) {
    const span = (this.latest - from) / 1000;
    const t = this.tiers.find((x) => x.step * x.most >= span) ?? this.tiers.at(-1);
    let first = 0;
    for (let n = t.times.length; first < n;) { // binary search
      const mid = (first + n) >> 1;
      if (t.times[mid] < from) first = mid + 1; else n = mid;
    }
    const columns = [];
    this.columns.forEach((c, i) => {
      if (c.chart === chart && matches(c.device)) columns.push({ name: c.name, device: c.device, values: t.values.slice(first).map((p) => p[i] ?? 0) });
    });
    return { step: t.step, times: t.times.slice(first), columns };
  }
}
