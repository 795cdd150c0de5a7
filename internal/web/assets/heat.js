
// heat.js: the map of every GPU on a canvas. A column is a node, a square is a
// GPU; nodes flow in lines, grouped by GPU model.

// unpack turns base64 into bytes.
const unpack = (text) => Uint8Array.from(atob(text), (c) => c.charCodeAt(0));

class HeatMap {
  constructor(data) {
    const find = (id) => document.getElementById(id);
    Object.assign(this, {
      data, canvas: find('heat-map'), slider: find('heat-time'), label: find('heat-label'),
      select: find('heat-policy'), button: find('heat-play'), said: find('heat-said'), hint: find('heat-said').textContent,
    });
    this.mark = html('div', { class: 'mark', hidden: '' }, this.canvas.parentElement);
    this.tip = html('div', { class: 'tip', hidden: '' }, this.canvas.parentElement);
    this.ctx = this.canvas.getContext('2d');
    this.select.addEventListener('change', () => this.choose());
    this.slider.addEventListener('input', () => this.show());
    this.button.addEventListener('click', () => this.play());
    this.listen();
    onResize(this.canvas.parentElement, () => {
      if (this.canvas.parentElement.clientWidth !== this.width) this.layout();
    });
    for (const query of ['(prefers-color-scheme: dark)', 'print']) {
      matchMedia(query).addEventListener('change', () => this.layout());
    }
    this.choose();
  }

  // choose shows another policy, at the same part of its run.
  choose() {
    const part = Number(this.slider.max) ? Number(this.slider.value) / Number(this.slider.max) : 1;
    this.map = this.data.maps[Number(this.select.value)];
    this.fills = this.map.frames.map((f) => unpack(f.fill));
    this.slider.max = String(this.map.frames.length - 1);
    this.slider.value = String(Math.round(part * (this.map.frames.length - 1)));
    this.groups = groupByModel(this.data.clusters[this.map.cluster]);
    this.selected = undefined;
    this.layout();
  }

  // layout finds the place of every square. squares[i] is GPU i of the fill.
  layout() {
    const width = this.canvas.parentElement.clientWidth;
    if (!width) return;
    const most = Math.max(...this.groups.map((g) => g.nodes.length));
    const side = Math.max(5, Math.min(22, Math.floor((width * 2) / most) - 1));
    const gap = side > 9 ? 2 : 1;
    const step = side + gap;
    const perLine = Math.max(1, Math.floor((width + gap) / step));
    this.side = side;
    this.squares = [];
    this.heads = [];
    let top = 0;
    for (const group of this.groups) {
      this.heads.push({ group, y: top + 13 });
      top += 20;
      group.nodes.forEach((node, k) => {
        const x = (k % perLine) * step;
        const y = top + Math.floor(k / perLine) * (group.gpus * step + 5);
        for (let g = 0; g < node.gpus; g++) {
          this.squares[node.first + g] = { x, y: y + g * step, node, gpu: g };
        }
      });
      top += Math.ceil(group.nodes.length / perLine) * (group.gpus * step + 5) + 8;
    }
    const sharp = Math.min(window.devicePixelRatio || 1, 2);
    this.canvas.width = Math.round(width * sharp);
    this.canvas.height = Math.round(top * sharp);
    this.canvas.style.aspectRatio = `${width} / ${top}`; // paper may be narrower
    this.ctx.setTransform(sharp, 0, 0, sharp, 0, 0);
    this.width = width;
    this.height = top;
    this.show();
  }

  // show draws the frame the slider points at.
  show() {
    const at = Number(this.slider.value);
    const { label } = this.map.frames[at];
    this.fill = this.fills[at];
    this.label.textContent = label;
    this.slider.setAttribute('aria-valuetext', label);
    const paint = palette();
    this.ctx.clearRect(0, 0, this.width, this.height);
    this.squares.forEach(({ x, y }, i) => {
      this.ctx.fillStyle = paint.shade[Math.min(100, this.fill[i])];
      this.ctx.fillRect(x, y, this.side, this.side);
    });
    this.ctx.textBaseline = 'alphabetic';
    this.ctx.font = '600 13px system-ui, sans-serif';
    for (const { group, y } of this.heads) {
      this.ctx.fillStyle = paint.ink;
      const name = group.model || 'GPU';
      this.ctx.fillText(name, 0, y);
      const after = this.ctx.measureText(name).width + 10;
      this.ctx.font = '13px system-ui, sans-serif';
      this.ctx.fillStyle = paint.quiet;
      this.ctx.fillText(this.describe(group), after, y);
      this.ctx.font = '600 13px system-ui, sans-serif';
    }
    if (this.selected !== undefined) this.point(this.selected);
  }

  describe(group) {
    let sum = 0;
    for (const node of group.nodes) {
      for (let g = 0; g < node.gpus; g++) sum += this.fill[node.first + g];
    }
    const count = (n, word) => `${n.toLocaleString('en')} ${word}${n === 1 ? '' : 's'}`;
    return `${count(group.nodes.length, 'node')} · ${count(group.total, 'GPU')} · ${(sum / group.total).toFixed(1)}\u00a0% given away`;
  }

  // point marks a GPU and says what it holds.
  point(i) {
    const { x, y, node, gpu } = this.squares[i];
    const text = `${node.name} · GPU ${gpu} · ${this.fill[i]}\u00a0%`;
    this.selected = i;
    this.said.textContent = text + (node.model ? ` · ${node.model}` : '');
    this.tip.textContent = text;
    this.tip.hidden = false;
    this.mark.hidden = false;
    Object.assign(this.mark.style, {
      left: x - 2 + 'px', top: y - 2 + 'px', width: this.side + 4 + 'px', height: this.side + 4 + 'px',
    });
    place(this.tip, x + this.side, Math.max(0, y - 10), this.width);
  }

  leave() {
    this.tip.hidden = true;
    this.mark.hidden = true;
    this.selected = undefined;
    this.said.textContent = this.hint;
  }

  listen() {
    this.canvas.addEventListener('pointermove', (e) => {
      const box = this.canvas.getBoundingClientRect();
      const [x, y] = [e.clientX - box.left, e.clientY - box.top];
      const i = this.squares.findIndex((s) => x >= s.x && x <= s.x + this.side + 1 && y >= s.y && y <= s.y + this.side + 1);
      if (i < 0) this.leave();
      else this.point(i);
    });
    this.canvas.addEventListener('pointerleave', () => this.leave());
    this.canvas.addEventListener('blur', () => this.leave());
    this.canvas.addEventListener('keydown', (e) => {
      if (e.key === 'Escape') this.leave();
      const next = this.neighbour(e.key);
      if (next === undefined) return;
      e.preventDefault();
      this.point(next);
    });
  }

  // neighbour is the GPU that an arrow key leads to.
  neighbour(key) {
    const way = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] }[key];
    if (!way) return undefined;
    if (this.selected === undefined) return this.groups[0].nodes[0].first;
    const from = this.squares[this.selected];
    const [group] = this.groups.filter((g) => g.nodes.includes(from.node));
    const k = group.nodes.indexOf(from.node);
    if (way[0] === 0) {
      const gpu = Math.min(from.node.gpus - 1, Math.max(0, from.gpu + way[1]));
      if (gpu !== from.gpu) return from.node.first + gpu;
      const other = this.groups[this.groups.indexOf(group) + way[1]];
      return other ? other.nodes[0].first : this.selected;
    }
    const node = group.nodes[k + way[0]];
    return node ? node.first + Math.min(from.gpu, node.gpus - 1) : this.selected;
  }

  play() {
    if (this.timer) return this.stop();
    if (this.slider.value === this.slider.max) this.slider.value = '0';
    this.show();
    this.button.textContent = 'Pause';
    this.timer = setInterval(() => {
      if (this.slider.value === this.slider.max) return this.stop();
      this.slider.value = String(Number(this.slider.value) + 1);
      return this.show();
    }, 250);
    return undefined;
  }

  stop() {
    clearInterval(this.timer);
    this.timer = undefined;
    this.button.textContent = 'Play';
  }
}

// groupByModel puts the nodes that have GPUs into groups, the largest nodes of
// a model first, else in the order given.
function groupByModel(cluster) {
  const groups = cluster.models.map((model) => ({ model, nodes: [], gpus: 0, total: 0 }));
  let first = 0;
  cluster.names.forEach((name, i) => {
    const group = groups[cluster.model[i]];
    const gpus = cluster.gpus[i];
    if (gpus > 0) {
      group.nodes.push({ name, model: group.model, gpus, first });
      group.gpus = Math.max(group.gpus, gpus);
      group.total += gpus;
    }
    first += gpus;
  });
  for (const group of groups) group.nodes.sort((a, b) => b.gpus - a.gpus || a.first - b.first);
  return groups.filter((g) => g.nodes.length > 0).sort((a, b) => b.total - a.total);
}

// palette reads the colours of the page, so that dark and print follow.
function palette() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(name).trim();
  const rgb = (hex) => [1, 3, 5].map((k) => parseInt(hex.slice(k, k + 2), 16));
  const [from, to] = [rgb(of('--part-low')), rgb(of('--part-high'))];
  const shade = Array.from({ length: 101 }, (_, i) => {
    if (i === 0) return of('--free');
    if (i === 100) return of('--full');
    return `rgb(${from.map((c, k) => Math.round(c + ((to[k] - c) * i) / 100)).join(' ')})`;
  });
  return { ink: of('--ink'), quiet: of('--quiet'), shade };
}
