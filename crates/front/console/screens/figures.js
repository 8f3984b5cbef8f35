// @ts-check
/** Figures, drawn as inline SVG: answers, time to answer, tokens, failures. Each drawing has its numbers as a table. */

import { get } from '../lib/api.js';
import { html, useEffect, useRef, useState } from '../lib/html.js';
import { useRows } from '../lib/live.js';
import { When, line, span } from '../lib/text.js';
import { Empty, Head, Loading, Problem } from '../parts/basics.js';

const HEIGHT = 190;
const LEFT = 46;
const TOP = 10;
const BOTTOM = 22;
const PLOT = HEIGHT - TOP - BOTTOM;
/** Room for one label of a step. */
const LABEL_PX = 72;

/** A round number that is at least the largest. @param {number} largest */
function ceiling(largest) {
  if (largest <= 5) return Math.max(1, Math.ceil(largest));
  const step = 10 ** Math.floor(Math.log10(largest));
  return [1, 2, 2.5, 5, 10].map((by) => by * step).find((round) => round >= largest) ?? largest;
}

function useWidth() {
  const ref = useRef(/** @type {HTMLElement | null} */ (null));
  const [width, setWidth] = useState(0);
  useEffect(() => {
    const observer = new ResizeObserver(([entry]) => setWidth(Math.round(entry?.contentRect.width ?? 0)));
    if (ref.current) observer.observe(ref.current);
    return () => observer.disconnect();
  }, []);
  return { ref, width };
}

/** A plot with its axes and its numbers. @param {Props.Plot} _ */
function Plot({ top, format, labels, label, names, values, draw }) {
  const { ref, width } = useWidth();
  const step = (width - LEFT) / Math.max(labels.length, 1);
  const x = (/** @type {number} */ at) => LEFT + step * (at + 0.5);
  const y = (/** @type {number} */ value) => TOP + PLOT * (1 - value / top);
  const every = Math.max(1, Math.ceil(labels.length / Math.max(1, Math.floor(width / LABEL_PX))));
  return html`<div class="chart" ref=${ref}>
    ${width > 0 && html`<svg viewBox="0 0 ${width} ${HEIGHT}" height=${HEIGHT} aria-hidden="true">
      <g class="axes">${[0, 0.5, 1].map((part) => html`
        <line x1=${LEFT} x2=${width} y1=${y(top * part)} y2=${y(top * part)} />
        <text x=${LEFT - 8} y=${y(top * part) + 4} text-anchor="end">${format(top * part)}</text>`)}
        ${labels.map((name, at) => at % every === 0 && html`<text x=${x(at)} y=${HEIGHT - 4} text-anchor="middle">${name}</text>`)}</g>
      ${draw(x, y, step)}</svg>`}
    <div class="spoken"><table><caption>${label}</caption>
      <thead><tr><th>when</th>${names.map((name) => html`<th>${name}</th>`)}</tr></thead>
      <tbody>${labels.map((name, at) => html`<tr>
        <td>${name}</td>${values.map((some) => html`<td>${some[at] == null ? '' : format(Number(some[at]))}</td>`)}</tr>`)}</tbody></table></div></div>`;
}

const whole = (/** @type {number} */ value) => (Number.isInteger(value) ? value.toLocaleString(undefined, { notation: value >= 10_000 ? 'compact' : 'standard' }) : '');

/** @param {Props.Columns} _ */
export function Columns({ points, label }) {
  const values = points.map((point) => point.value);
  return html`<${Plot} top=${ceiling(Math.max(...values))} format=${whole} labels=${points.map((point) => point.label)} label=${label} names=${['how many']} values=${[values]}
    draw=${(x, y, step) => points.map(({ label: name, value }, at) => html`
      <rect class="column" x=${x(at) - step * 0.38} y=${y(value)} width=${step * 0.76} height=${TOP + PLOT - y(value)} rx="2">
        <title>${name}: ${value}</title></rect>`)} />`;
}

/** @param {Props.Lines} _ */
export function Lines({ series, labels, label, format }) {
  const top = Math.max(1, ...series.flatMap((one) => one.values.map((value) => value ?? 0)));
  return html`<${Plot} top=${top} format=${format} labels=${labels} label=${label} names=${series.map((one) => one.name)} values=${series.map((one) => one.values)}
      draw=${(x, y) => series.map(({ values }, index) => html`
        <polyline class="line s${index}" points=${values.flatMap((value, at) => (value == null ? [] : [`${x(at)},${y(value)}`])).join(' ')} />
        ${values.map((value, at) => value != null && html`<circle class="line s${index}" cx=${x(at)} cy=${y(value)} r="2.5">
          <title>${labels[at]}: ${format(Number(value))}</title></circle>`)}`)} />
    <p class="legend">${series.map((one, index) => html`<span class="s${index}"><i aria-hidden="true"></i>${one.name}</span>`)}</p>`;
}

/** @param {Props.Bars} _ */
export function Bars({ rows, label, tone = '' }) {
  const shown = rows.filter(([, value]) => value > 0).toSorted((a, b) => b[1] - a[1]).slice(0, 12);
  if (shown.length === 0) return html`<p class="dim">None.</p>`;
  const top = shown[0]?.[1] ?? 1;
  return html`<table class="bars"><caption class="spoken">${label}</caption><tbody>${shown.map(([name, value]) => html`<tr key=${name}>
    <th scope="row"><bdi>${line(name, 40)}</bdi></th>
    <td><svg viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true">
      <rect class="column ${tone}" width=${Math.max(1, (100 * value) / top)} height="10" rx="1" /></svg></td>
      <td class="number">${value.toLocaleString()}</td></tr>`)}</tbody></table>`;
}

const DAY = 24;
/** @type {[hours: number, words: string][]} */
const REACHES = [[DAY, 'a day'], [7 * DAY, 'a week']];
const clock = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const weekday = new Intl.DateTimeFormat(undefined, { weekday: 'short', hour: '2-digit' });

/** @param {Route} _ */
export function Screen(_) {
  const [hours, setHours] = useState(DAY);
  const { value, error, reload } = useRows(() => /** @type {Promise<Api.FiguresView>} */ (get('figures', { hours })), [hours]);
  if (!value) return error ? html`<${Head} title="Figures" /><${Problem} error=${error} what="figures" again=${reload} />` : html`<${Loading} />`;
  const labels = value.hours.map(({ at }) => (hours > DAY ? weekday : clock).format(new Date(at)));
  const { total } = value;
  const ended = total.answered + total.failed + total.stopped;
  return html`
    <${Head} title="Figures" sub=${`${total.answered.toLocaleString()} answered, ${total.failed.toLocaleString()} failed, ${total.stopped.toLocaleString()} stopped`}>
      <div class="chips" role="group" aria-label="How far back">${REACHES.map(([reach, words]) => html`
        <button class="chip" aria-pressed=${hours === reach} onClick=${() => setHours(reach)}>${words}</button>`)}</div><//>
    ${error && html`<${Problem} error=${error} what="figures" again=${reload} />`}
    ${value.cut && html`<p class="remark">Only the newest 20,000 messages are counted, and there are more.</p>`}
    ${ended === 0 ? html`<${Empty} title="Nothing to draw yet"><p>No message ended since <${When} at=${value.since} />. Send one first.</p><//>`
      : html`<div class="grid charts">
      <section class="card wide"><h2>Answers by the hour</h2>
        <${Columns} points=${value.hours.map((hour, at) => ({ label: labels[at] ?? '', value: hour.answered }))} label="Answers by the hour" /></section>
      <section class="card wide"><h2>Time to answer</h2><${Lines} label="Time to answer by the hour" format=${span} labels=${labels} series=${[
        { name: 'half are faster (p50)', values: value.hours.map((hour) => hour.p50_ms) }, { name: '95 of 100 are faster (p95)', values: value.hours.map((hour) => hour.p95_ms) }]} /></section>
      <section class="card"><h2>Tokens by sender</h2><${Bars} label="Tokens by sender" rows=${value.senders.map((one) => [one.sender, one.tokens])} /></section>
      <section class="card"><h2>Failures by class</h2>
        <${Bars} label="Failures by class" rows=${value.failures.map((one) => [one.class, one.messages])} tone="failed" /></section>
    </div>`}`;
}
