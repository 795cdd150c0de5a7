'use strict';

// scale.js: numbers to positions, ticks and words. Nothing here touches the page.

const units = [[86400, 'd'], [3600, 'h'], [60, 'min'], [1, 's']];

// digits keeps about three of them and drops trailing zeros.
function digits(v) {
  const d = Math.abs(v) >= 100 ? 0 : Math.abs(v) >= 10 ? 1 : 2;
  return String(Number(v.toFixed(d)));
}

// duration says seconds in the unit in which they read best.
function duration(s) {
  for (const [size, name] of units) {
    if (s >= size * (size === 1 ? 0 : 1)) return digits(s / size) + '\u00a0' + name;
  }
  return '0\u00a0s';
}

// niceStep is the smallest of 1, 2, 5 × 10^k that cuts span into at most n.
function niceStep(span, n) {
  const power = 10 ** Math.floor(Math.log10(span / n));
  return [1, 2, 5, 10].map((m) => m * power).find((step) => span / step <= n * 1.0001);
}

function multiples(from, to, step) {
  const out = [];
  for (let k = Math.ceil(from / step - 1e-9); k * step <= to + step * 1e-9; k++) out.push(Number((k * step).toPrecision(12)));
  return out;
}

function timeStep(span, n) {
  const steps = [1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200,
    86400, 172800, 432000, 864000, 1728000];
  return steps.find((step) => span / step <= n) || niceStep(span / 86400, n) * 86400;
}

// Each axis is {at(v) → 0..1, value(p) → v, ticks, say(v), label(v)}.
function linear(from, to, ticks, say, label) {
  const span = to - from || 1;
  return { from, to, ticks, say, label: label || say, at: (v) => (v - from) / span, value: (p) => from + p * span };
}

function percentAxis(from, to, n) {
  const step = niceStep(to - from || 1, n);
  return linear(from, to, multiples(from, to, step), (v) => v.toFixed(1) + '\u00a0%', (v) => String(v));
}

function countAxis(from, to, n) {
  const step = Math.max(1, niceStep(to - from || 1, n));
  return linear(from, to, multiples(from, to, step), digits, (v) => v.toLocaleString('en'));
}

// timeAxis labels all ticks in one unit, that of the step or the one above.
function timeAxis(to, n) {
  const step = timeStep(to || 1, n);
  const [size, name] = units.find(([u]) => to >= 2 * u) || units[3];
  return linear(0, to || 1, multiples(0, to, step), duration, (v) => digits(v / size) + (v ? '\u00a0' + name : ''));
}

// logAxis starts at floor, where everything smaller is drawn.
function logAxis(floor, to) {
  const low = Math.log10(floor);
  const span = Math.log10(to) - low || 1;
  const ticks = [0.001, 0.01, 0.1, 1, 10, 60, 600, 3600, 36000, 86400, 864000, 8640000].filter((t) => t >= floor && t <= to);
  return {
    from: floor, to, ticks, say: (v) => (v <= floor ? '≤\u00a0' : '') + duration(v),
    label: (v) => (v <= floor ? '≤\u00a0' : '') + duration(v),
    at: (v) => (Math.log10(Math.max(v, floor)) - low) / span,
    value: (p) => 10 ** (low + p * span),
  };
}

// lastAtOrBefore is the index of the last x at or before v, −1 if none.
function lastAtOrBefore(xs, v) {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const mid = (low + high) >> 1;
    if (xs[mid] <= v) low = mid + 1;
    else high = mid;
  }
  return low - 1;
}
