// @ts-check
/** Drawings, as inline SVG; each has its numbers as a table for screen readers. */

import { html } from '../lib/html.js';
import { line } from '../lib/text.js';

const WIDTH = 640;
const HEIGHT = 160;
const LEFT = 48;
const BOTTOM = 20;
const PLOT = { width: WIDTH - LEFT - 4, height: HEIGHT - BOTTOM - 8 };

/** A round number that is at least the largest. @param {number} largest */
function ceiling(largest) {
  if (largest <= 5) return Math.max(1, Math.ceil(largest));
  const step = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 2.5, 5, 10].map((by) => by * step).find((round) => round >= largest) ?? largest;
}

/** @param {{ top: number, format: (value: number) => string, labels: string[] }} props */
function Axes({ top, format, labels }) {
  const every = Math.max(1, Math.ceil(labels.length / 8));
  return html`<g class="axes">${[0, 0.5, 1].map((part) => html`
      <line x1=${LEFT} x2=${WIDTH - 4} y1=${8 + PLOT.height * (1 - part)} y2=${8 + PLOT.height * (1 - part)} />
      <text x=${LEFT - 6} y=${12 + PLOT.height * (1 - part)} text-anchor="end">${format(top * part)}</text>`)}
    ${labels.map((label, at) => at % every === 0 && html`<text x=${LEFT + PLOT.width * ((at + 0.5) / labels.length)} y=${HEIGHT - 4} text-anchor="middle">${label}</text>`)}</g>`;
}

/** @param {{ head: string[], rows: (string | number)[][], label: string }} props */
const Numbers = ({ head, rows, label }) => html`<table class="spoken"><caption>${label}</caption><thead><tr>${head.map((one) => html`<th>${one}</th>`)}</tr></thead>
  <tbody>${rows.map((row) => html`<tr>${row.map((one) => html`<td>${one}</td>`)}</tr>`)}</tbody></table>`;

const whole = (/** @type {number} */ value) => (Number.isInteger(value) ? value.toLocaleString(undefined, { notation: value >= 10_000 ? 'compact' : 'standard' }) : '');

/** @param {{ points: { label: string, value: number }[], label: string }} props */
export function Columns({ points, label }) {
  const top = ceiling(Math.max(...points.map((point) => point.value)));
  const wide = PLOT.width / points.length;
  return html`<div class="chart"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true"><${Axes} top=${top} format=${whole} labels=${points.map((point) => point.label)} />
    ${points.map((point, at) => {
      const high = (PLOT.height * point.value) / top;
      return html`<rect class="column" x=${LEFT + wide * at + wide * 0.12} y=${8 + PLOT.height - high} width=${wide * 0.76} height=${high} rx="2"><title>${point.label}: ${point.value}</title></rect>`;
    })}</svg><${Numbers} label=${label} head=${['when', 'how many']} rows=${points.map((point) => [point.label, point.value])} /></div>`;
}

/** @param {{ series: { name: string, values: (number | null)[] }[], labels: string[], label: string, format: (value: number) => string }} props */
export function Lines({ series, labels, label, format }) {
  const top = Math.max(1, ...series.flatMap((one) => one.values.map((value) => value ?? 0)));
  const point = (/** @type {number} */ value, /** @type {number} */ at) => `${LEFT + PLOT.width * ((at + 0.5) / labels.length)},${8 + PLOT.height * (1 - value / top)}`;
  return html`<div class="chart"><svg viewBox="0 0 ${WIDTH} ${HEIGHT}" aria-hidden="true"><${Axes} top=${top} format=${format} labels=${labels} />
    ${series.map((one, index) => html`<polyline class="line s${index}" points=${one.values.flatMap((value, at) => (value === null ? [] : [point(value, at)])).join(' ')} />
      ${one.values.map((value, at) => { const [x, y] = value === null ? [] : point(value, at).split(','); return value !== null && html`<circle class="line s${index}" cx=${x} cy=${y} r="2.5"><title>${labels[at]}: ${format(value)}</title></circle>`; })}`)}</svg>
    <p class="legend">${series.map((one, index) => html`<span class="s${index}"><i aria-hidden="true"></i>${one.name}</span>`)}</p>
    <${Numbers} label=${label} head=${['when', ...series.map((one) => one.name)]} rows=${labels.map((name, at) => [name, ...series.map((one) => { const value = one.values[at]; return value == null ? '' : format(value); })])} /></div>`;
}

/** @param {{ rows: [string, number][], label: string, tone?: string }} props */
export function Bars({ rows, label, tone = '' }) {
  const shown = rows.filter(([, value]) => value > 0).toSorted((a, b) => b[1] - a[1]).slice(0, 12);
  if (shown.length === 0) return html`<p class="dim">None.</p>`;
  const top = shown[0]?.[1] ?? 1;
  return html`<table class="bars"><caption class="spoken">${label}</caption><tbody>${shown.map(([name, value]) => html`<tr key=${name}><th scope="row"><bdi>${line(name, 40)}</bdi></th>
    <td><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true"><rect class="column ${tone}" width=${Math.max(1, (100 * value) / top)} height="10" rx="1" /></svg></td><td class="number">${value.toLocaleString()}</td></tr>`)}</tbody></table>`;
}
