
// report.js: joins the page and its data.

function legend(host, study, charts) {
  study.policies.forEach((name, policy) => {
    const button = html('button', { type: 'button', 'aria-pressed': 'true' }, host);
    const mark = svg('svg', { width: 18, height: 8, 'aria-hidden': 'true' }, button);
    const stroke = svg('line', { x1: 0, x2: 18, y1: 4, y2: 4, 'stroke-width': 3, 'stroke-dasharray': dash(policy) }, mark);
    stroke.style.stroke = colour(policy);
    html('span', {}, button, name);
    button.addEventListener('click', () => {
      if (!study.hidden.delete(policy)) study.hidden.add(policy);
      button.setAttribute('aria-pressed', String(!study.hidden.has(policy)));
      for (const chart of charts) chart.draw();
    });
  });
}

const data = JSON.parse(document.getElementById('data').textContent);
data.studies.forEach((given, id) => {
  const section = document.querySelector(`[data-study="${id}"]`);
  const study = { id, policies: given.policies, hidden: new Set() };
  for (const swatch of section.querySelectorAll('.swatch')) swatch.style.background = colour(Number(swatch.dataset.policy));
  const charts = [...section.querySelectorAll('figure')].map((figure, index) => (
    new Chart(figure, { ...given.charts[index], index }, study)));
  const host = section.querySelector('.legend');
  if (host) legend(host, study, charts);
});
if (data.heat && data.heat.maps) new HeatMap(data.heat);
