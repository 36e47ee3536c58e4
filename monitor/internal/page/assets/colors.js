// What colour a name has, the same everywhere on the page.

const own = ['weights', 'gradients', 'optimizer', 'activations', 'batch', 'kvcache', 'workspace', 'staging', 'other', 'loader', 'pending', 'free'];
const others = ['weights', 'gradients', 'activations', 'optimizer', 'batch', 'kvcache', 'staging', 'workspace', 'loader', 'other'];
let given = new Map();
let styles = null;

export function css(name) {
  styles ??= getComputedStyle(document.documentElement);
  return styles.getPropertyValue('--' + name).trim();
}

// color is that of a purpose, or one of its own for another name of a group.
export function color(group, name) {
  if (own.includes(name)) return css(name);
  const key = group + '/' + name;
  if (!given.has(key)) {
    let n = 0;
    for (const k of given.keys()) if (k.startsWith(group + '/')) n++;
    given.set(key, others[n % others.length]);
  }
  return css(given.get(key));
}

export function onTheme(fn) {
  matchMedia('(prefers-color-scheme: dark)').addEventListener('change', () => { styles = null; fn(); });
}
