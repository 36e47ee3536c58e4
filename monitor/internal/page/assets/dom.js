// Small helpers. Text is always set as text: names may be anything.

export const $ = (id) => document.getElementById(id);

export function text(el, s) {
  if (el.textContent !== s) el.textContent = s;
}

export function make(tag, className, content) {
  const el = document.createElement(tag);
  if (className) el.className = className;
  if (content !== undefined) el.textContent = content;
  return el;
}

// fill makes the text of an element of parts; those in a list are strong.
export function fill(el, ...parts) {
  const key = JSON.stringify(parts);
  if (el.dataset.parts === key) return;
  el.dataset.parts = key;
  el.replaceChildren(...parts.map((p) => Array.isArray(p) ? make('b', '', p[0]) : p));
}

// table shows rows under heads. A head is [text, class]; a row has a key, a class, and
// cells: text, or a function that makes the cell's content. The first is the row's head.
export function table(el, caption, heads, rows) {
  if (!rows.length) {
    el.replaceChildren();
    el.dataset.heads = '';
    return;
  }
  const wanted = JSON.stringify(heads);
  if (el.dataset.heads !== wanted) {
    el.dataset.heads = wanted;
    const head = make('tr');
    for (const [title, className] of heads) {
      const th = make('th', className, title);
      th.scope = 'col';
      head.append(th);
    }
    const thead = make('thead');
    thead.append(head);
    el.replaceChildren(make('caption', 'out', caption), thead, make('tbody'));
  }
  const body = el.tBodies[0];
  const old = new Map([...body.rows].map((tr) => [tr.dataset.key, tr]));
  rows.forEach((row, at) => {
    const key = String(row.key);
    let tr = old.get(key);
    old.delete(key);
    if (!tr) {
      tr = make('tr');
      tr.dataset.key = key;
      row.cells.forEach((_, i) => {
        const cell = make(i ? 'td' : 'th', heads[i][1]);
        if (!i) cell.scope = 'row';
        tr.append(cell);
      });
    }
    if (body.rows[at] !== tr) body.insertBefore(tr, body.rows[at] ?? null);
    if (tr.className !== (row.className ?? '')) tr.className = row.className ?? '';
    row.cells.forEach((content, i) => {
      const cell = tr.cells[i];
      if (typeof content === 'function') content(cell);
      else text(cell, content);
    });
  });
  for (const tr of old.values()) tr.remove();
}

// marked shows a name behind its colour, and a tag if there is one.
export const marked = (color, name, tag) => (cell) => {
  if (cell.dataset.name !== name || cell.dataset.color !== color || (cell.dataset.tag ?? '') !== (tag ?? '')) {
    Object.assign(cell.dataset, { name, color, tag: tag ?? '' });
    const mark = make('span', 'mark');
    mark.style.background = color;
    cell.replaceChildren(mark, name);
    if (tag) cell.append(make('span', 'tag', tag));
  }
};

// bar shows a share of 1.
export const bar = (share) => (cell) => {
  if (!cell.firstChild) cell.append(make('i'));
  cell.firstChild.style.width = Math.max(0, Math.min(100, 100 * share)).toFixed(1) + '%';
};

// titled is text with more to say where one points at it.
export const titled = (s, title) => (cell) => {
  text(cell, s);
  if (cell.title !== title) cell.title = title;
};
