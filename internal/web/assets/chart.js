
// chart.js: one plot as SVG, with a legend shared by the plots of a study.

const colours = 8;
const colour = (policy) => `var(--c${policy % colours})`;
// A ninth policy gets the first colour again, but dashed.
const dash = (policy) => ['', '7 3', '2 3', '9 3 2 3'][Math.floor(policy / colours) % 4];

function svg(name, attributes, parent) {
  const el = document.createElementNS('http://www.w3.org/2000/svg', name);
  for (const [key, value] of Object.entries(attributes || {})) el.setAttribute(key, value);
  if (parent) parent.append(el);
  return el;
}

function html(name, attributes, parent, text) {
  const el = document.createElement(name);
  for (const [key, value] of Object.entries(attributes || {})) el.setAttribute(key, value);
  if (text !== undefined) el.textContent = text;
  if (parent) parent.append(el);
  return el;
}

// onResize calls back once per frame at most, after the layout has settled.
function onResize(el, then) {
  let asked = false;
  new ResizeObserver(() => {
    if (asked) return;
    asked = true;
    requestAnimationFrame(() => {
      asked = false;
      then();
    });
  }).observe(el);
}

// valueAt reads a line at x: straight between points, steps in a distribution,
// undefined outside.
function valueAt(line, x, stepped) {
  const i = lastAtOrBefore(line.xs, x);
  if (i < 0) return stepped ? 0 : undefined;
  if (i === line.xs.length - 1) return stepped || line.xs[i] === x ? line.ys[i] : undefined;
  if (stepped) return line.ys[i];
  const part = (x - line.xs[i]) / (line.xs[i + 1] - line.xs[i]);
  return line.ys[i] + part * (line.ys[i + 1] - line.ys[i]);
}

// range finds the least and greatest y of the lines between two xs.
function range(lines, from, to) {
  let low = Infinity;
  let high = -Infinity;
  const see = (y) => { low = Math.min(low, y); high = Math.max(high, y); };
  for (const line of lines) {
    line.xs.forEach((x, i) => {
      if (x < from || x > to) return;
      see(line.lo ? line.lo[i] : line.ys[i]);
      see(line.hi ? line.hi[i] : line.ys[i]);
    });
  }
  return low <= high ? [low, high] : [0, 1];
}

class Chart {
  constructor(figure, spec, study) {
    Object.assign(this, { spec, study, plot: figure.querySelector('.plot'), from: 0, to: 130, width: 0 });
    const zoom = [...figure.querySelectorAll('.zoom button')];
    for (const button of zoom) {
      button.addEventListener('click', () => {
        for (const b of zoom) b.setAttribute('aria-pressed', String(b === button));
        this.from = Number(button.dataset.from);
        this.to = Number(button.dataset.to);
        this.draw();
      });
    }
    this.tip = html('div', { class: 'tip', hidden: '' });
    onResize(this.plot, () => {
      if (this.plot.clientWidth !== this.width) this.draw();
    });
  }

  shown() { return this.spec.lines.filter((l) => !this.study.hidden.has(l.policy)); }

  axes(lines, across) {
    const all = this.spec.lines;
    const n = Math.max(3, Math.floor(across / (this.spec.x === 'pct' ? 45 : 70)));
    const end = Math.max(...all.map((l) => l.xs[l.xs.length - 1]));
    let x;
    if (this.spec.x === 'pct') x = percentAxis(this.from, this.to, n);
    if (this.spec.x === 'time') x = timeAxis(end, n);
    if (this.spec.x === 'log') x = logAxis(end > 100 ? 1 : 0.001, Math.max(end, 0.01) * 1.02);
    let [low, high] = range(lines, x.from, x.to);
    if (this.spec.x === 'log' || this.spec.y === 'share') [low, high] = [0, 100];
    else if (this.from === 0) low = 0;
    if (this.spec.diagonal && this.from === 0) high = Math.max(high, 100);
    if (this.from > 0) {
      const room = (high - low) * 0.06 || 0.5;
      [low, high] = [Math.max(0, low - room), high + room];
    }
    const step = niceStep(high - low || 1, 6);
    [low, high] = [Math.floor(low / step + 1e-9) * step, Math.max(Math.ceil(high / step - 1e-9) * step, low + step)];
    if (this.spec.y !== 'count') high = Math.min(high, 100); // no share is above 100 %
    return { x, y: this.spec.y === 'count' ? countAxis(low, high, 6) : percentAxis(low, high, 6) };
  }

  draw() {
    this.width = this.plot.clientWidth;
    const w = Math.max(this.width, 260);
    const h = w < 420 ? 240 : 300;
    const lines = this.shown();
    const m = { left: 44, right: 14, top: 8, bottom: 40 };
    const inner = { w: w - m.left - m.right, h: h - m.top - m.bottom };
    const { x, y } = this.axes(lines, inner.w);
    const px = (v) => m.left + x.at(v) * inner.w;
    const py = (v) => m.top + (1 - y.at(v)) * inner.h;
    const root = svg('svg', { viewBox: `0 0 ${w} ${h}`, role: 'img', tabindex: '0', 'aria-label': this.summary() });
    this.frame = { root, x, y, px, py, m, inner, w };
    this.grid();
    const id = `clip-${this.study.id}-${this.spec.index}`;
    const clip = svg('clipPath', { id }, svg('defs', {}, root));
    svg('rect', { x: m.left, y: m.top - 2, width: inner.w + 2, height: inner.h + 4 }, clip);
    const layer = svg('g', { 'clip-path': `url(#${id})` }, root);
    if (this.spec.diagonal) svg('line', { class: 'diagonal', x1: px(0), y1: py(0), x2: px(130), y2: py(130) }, layer);
    for (const line of lines) this.band(line, layer);
    for (const line of lines) this.curve(line, layer);
    if (lines.length === 0) svg('text', { x: w / 2, y: h / 2, 'text-anchor': 'middle' }, root).textContent = 'all policies are hidden';
    this.cursor = svg('g', {}, root);
    this.listen(root);
    this.plot.replaceChildren(root, this.tip);
    this.tip.hidden = true;
  }

  grid() {
    const { root, x, y, px, py, m, inner } = this.frame;
    for (const t of y.ticks) {
      svg('line', { class: t === 0 ? 'base' : 'grid', x1: m.left, x2: m.left + inner.w, y1: py(t), y2: py(t) }, root);
      svg('text', { x: m.left - 7, y: py(t) + 4, 'text-anchor': 'end' }, root).textContent = y.label(t);
    }
    const bottom = m.top + inner.h;
    let free = -Infinity; // where the last label ended
    for (const t of x.ticks) {
      svg('line', { class: 'base', x1: px(t), x2: px(t), y1: bottom, y2: bottom + 4 }, root);
      const text = x.label(t);
      const half = text.length * 3.4;
      const at = Math.min(px(t), m.left + inner.w + m.right - half);
      if (at - half < free) continue;
      svg('text', { x: at, y: bottom + 17, 'text-anchor': 'middle' }, root).textContent = text;
      free = at + half + 6;
    }
    svg('text', { x: m.left + inner.w / 2, y: bottom + 35, 'text-anchor': 'middle' }, root).textContent = this.spec.xLabel;
  }

  band(line, layer) {
    if (!line.lo) return;
    const { px, py } = this.frame;
    const there = line.xs.map((x, i) => `${px(x).toFixed(1)},${py(line.hi[i]).toFixed(1)}`);
    const back = line.xs.map((x, i) => `${px(x).toFixed(1)},${py(line.lo[i]).toFixed(1)}`).reverse();
    svg('polygon', { class: 'band', points: [...there, ...back].join(' ') }, layer).style.fill = colour(line.policy);
  }

  curve(line, layer) {
    const { px, py, x } = this.frame;
    const points = line.xs.map((v, i) => `${px(v).toFixed(1)},${py(line.ys[i]).toFixed(1)}`);
    if (this.spec.x === 'log') {
      // A distribution rises from nothing and stays at 100 %.
      points.unshift(`${px(line.xs[0]).toFixed(1)},${py(0).toFixed(1)}`);
      points.push(`${px(x.to).toFixed(1)},${py(line.ys[line.ys.length - 1]).toFixed(1)}`);
    }
    const el = svg('polyline', { class: 'curve', points: points.join(' '), 'stroke-dasharray': dash(line.policy) }, layer);
    el.style.stroke = colour(line.policy);
  }

  // summary is what a screen reader says of the plot.
  summary() {
    const ends = this.shown().map((l) => `${this.study.policies[l.policy]} ${digits(l.ys[l.ys.length - 1])}`);
    const last = this.spec.x === 'log' ? '' : ` Last values: ${ends.join(', ')}.`;
    return `${this.spec.title}: ${this.spec.unit}, against ${this.spec.xLabel}.${last} Left and right arrow read values.`;
  }

  listen(root) {
    const { x, m, inner, w } = this.frame;
    let at = 0.5;
    root.addEventListener('pointermove', (e) => {
      const box = root.getBoundingClientRect();
      at = ((e.clientX - box.left) * (w / box.width) - m.left) / inner.w;
      if (at < 0 || at > 1) this.leave();
      else this.point(x.value(at));
    });
    root.addEventListener('pointerleave', () => this.leave());
    root.addEventListener('blur', () => this.leave());
    root.addEventListener('keydown', (e) => {
      const move = { ArrowLeft: -0.02, ArrowRight: 0.02, Home: -1, End: 1 }[e.key];
      if (e.key === 'Escape') this.leave();
      if (move === undefined) return;
      e.preventDefault();
      at = Math.min(1, Math.max(0, at + move));
      this.point(x.value(at));
    });
  }

  leave() {
    this.tip.hidden = true;
    this.cursor.replaceChildren();
  }

  // point shows the values at x, best first.
  point(v) {
    const { x, y, px, py, m, inner, w, root } = this.frame;
    if (this.spec.x === 'pct') v = Math.round(v);
    const rows = this.shown()
      .map((line) => ({ policy: line.policy, value: valueAt(line, v, this.spec.x === 'log') }))
      .filter((row) => Number.isFinite(row.value))
      .sort((a, b) => b.value - a.value || a.policy - b.policy);
    this.cursor.replaceChildren();
    svg('line', { class: 'cursor', x1: px(v), x2: px(v), y1: m.top, y2: m.top + inner.h }, this.cursor);
    this.tip.replaceChildren();
    html('b', {}, this.tip, x.say(v).replace('.0', ''));
    for (const { policy, value } of rows) {
      if (value >= y.from && value <= y.to) {
        svg('circle', { cx: px(v), cy: py(value), r: 3 }, this.cursor).style.fill = colour(policy);
      }
      const row = html('div', {}, this.tip);
      html('span', { class: 'swatch' }, row).style.background = colour(policy);
      html('span', {}, row, this.study.policies[policy]);
      html('span', { class: 'value' }, row, y.say(value));
    }
    this.tip.hidden = false;
    const scale = root.getBoundingClientRect().width / w;
    place(this.tip, px(v) * scale, 8, this.plot.clientWidth);
  }
}

// place puts a tip beside x, on the side where there is room.
function place(tip, x, y, width) {
  const right = x + 12 + tip.offsetWidth <= width;
  tip.style.left = Math.max(0, right ? x + 12 : x - 12 - tip.offsetWidth) + 'px';
  tip.style.top = y + 'px';
}
