// How numbers are printed: as the command prints them.

export function digits(v) {
  let decimals = 2;
  for (let limit = 9.995; Math.abs(v) >= limit && decimals > 0; limit *= 10) decimals--;
  return v.toFixed(decimals);
}

const binary = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'];

export function bytes(n) {
  let v = n, unit = 0;
  for (; unit < binary.length - 1 && Math.abs(v) >= 1023.5; unit++) v /= 1024;
  return (Number.isInteger(v) ? String(v) : digits(v)) + ' ' + binary[unit];
}

export function rate(v) {
  for (const [unit, size] of [['GB/s', 1e9], ['MB/s', 1e6], ['kB/s', 1e3]]) {
    if (v >= 0.9995 * size) return digits(v / size) + ' ' + unit;
  }
  return Math.round(v) + ' B/s';
}

export const percent = (share) => (100 * share).toFixed(1) + ' %';

export const grouped = (n) => Math.round(n).toString().replace(/\B(?=(\d{3})+$)/g, ',');

// figure prints an amount that may be small: three digits, or all of them.
export const figure = (v) => v < 99.95 ? digits(v) : grouped(v);

export const count = (n, one, many) => grouped(n) + ' ' + (n === 1 ? one : many ?? one + 's');

export function seconds(s) {
  if (s < 1e-3) return digits(s * 1e6) + ' µs';
  if (s < 0.9995) return digits(s * 1e3) + ' ms';
  if (s < 99.5) return digits(s) + ' s';
  return age(s);
}

// age prints a time that is about people, not about machines.
export function age(s) {
  if (s < 60) return Math.floor(s) + ' s';
  if (s < 3600) return Math.floor(s / 60) + ' min ' + Math.floor(s % 60) + ' s';
  if (s < 86400) return Math.floor(s / 3600) + ' h ' + Math.floor(s % 3600 / 60) + ' min';
  return Math.floor(s / 86400) + ' d ' + Math.floor(s % 86400 / 3600) + ' h';
}

const two = (n) => String(n).padStart(2, '0');

// clock prints a time of the day.
export function clock(ms, withSeconds) {
  const d = new Date(ms);
  return two(d.getHours()) + ':' + two(d.getMinutes()) + (withSeconds ? ':' + two(d.getSeconds()) : '');
}
