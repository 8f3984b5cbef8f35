// @ts-check
/** Figures, drawn: answers, time to answer, tokens, failures. */

import { get } from '../lib/api.js';
import { html, useState } from '../lib/html.js';
import { useRows } from '../lib/load.js';
import { line } from '../lib/text.js';
import { span } from '../lib/time.js';
import { Bars, Columns, Lines } from '../parts/charts.js';
import { Empty, Head, Loading, Problem } from '../parts/basics.js';

/** @type {[step: string, words: string][]} */
const STEPS = [['hour', 'hours'], ['day', 'days']];
const hour = new Intl.DateTimeFormat(undefined, { hour: '2-digit', minute: '2-digit' });
const day = new Intl.DateTimeFormat(undefined, { month: 'short', day: 'numeric' });

/** A list of names and numbers, whichever way they came. @param {any} from @returns {[string, number][]} */
function pairs(from) {
  if (Array.isArray(from)) return from.map((one) => [one.name ?? one.sender ?? one.class ?? '', one.count ?? one.tokens ?? one.value ?? (one.input_tokens ?? 0) + (one.output_tokens ?? 0)]);
  return Object.entries(from ?? {}).map(([name, count]) => [name, Number(count)]);
}

export function Figures() {
  const [step, setStep] = useState('hour');
  const { value, error, reload } = useRows(() => get('figures', { step }), [step]);
  if (!value) return error ? html`<${Head} title="Figures" /><${Problem} error=${error} what="figures" again=${reload} />` : html`<${Loading} />`;
  const buckets = /** @type {any[]} */ (value.buckets ?? value.steps ?? []);
  const label = (/** @type {any} */ bucket) => (step === 'hour' ? hour : day).format(new Date(bucket.at ?? bucket.from));
  const answered = buckets.map((bucket) => ({ label: label(bucket), value: bucket.answered ?? 0 }));
  const total = answered.reduce((sum, one) => sum + one.value, 0);
  return html`
    <${Head} title="Figures" sub="${total.toLocaleString()} answers"><div class="chips" role="group" aria-label="Step">${STEPS.map(([name, words]) => html`
      <button class="chip" aria-pressed=${step === name} onClick=${() => setStep(name)}>${words}</button>`)}</div></${Head}>
    ${error && html`<${Problem} error=${error} what="figures" again=${reload} />`}
    ${buckets.length === 0 ? html`<${Empty} title="Nothing to draw yet"><p>Figures are counted from the rows that are kept. Send a message first.</p></${Empty}>` : html`
    <div class="grid charts">
      <section class="card wide"><h2>Answers</h2><${Columns} points=${answered} label="Answers by ${step}" /></section>
      <section class="card wide"><h2>Time to answer</h2><${Lines} label="Time to answer by ${step}" format=${span} labels=${buckets.map(label)} series=${[
        { name: 'half are faster (p50)', values: buckets.map((bucket) => bucket.p50_ms ?? null) }, { name: '95 of 100 are faster (p95)', values: buckets.map((bucket) => bucket.p95_ms ?? null) }]} /></section>
      <section class="card"><h2>Tokens by sender</h2><${Bars} label="Tokens by sender" rows=${pairs(value.tokens ?? value.senders)} /></section>
      <section class="card"><h2>Failures by class</h2><${Bars} label="Failures by class" rows=${pairs(value.failures ?? value.classes)} tone="failed" /></section>
    </div>`}
    ${value.since && html`<p class="dim">since ${line(new Date(value.since).toLocaleString(), 40)}</p>`}`;
}
